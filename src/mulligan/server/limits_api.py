"""The routes that show limits and fairness keys, and change limits."""

from msgspec.structs import asdict

from mulligan.app import stored_limits
from mulligan.app.shard_away import unless_away
from mulligan.core.checks import check_name
from mulligan.core.counts import NO_COUNTS
from mulligan.core.limit_metrics import started_by_limit
from mulligan.core.limits import LimitView
from mulligan.server.service import Service
from mulligan.server.shapes.limits import (
    LimitList,
    PauseLimit,
    QueueKeys,
    ResetLimit,
    SetLimit,
    SetWeights,
    Weights,
)


async def list_limits(service: Service) -> LimitList:
    """The limits that are stored or in use, with who runs, who waits and when there is room."""
    views = await stored_limits.list_limits(service.store)
    started = started_by_limit((await unless_away(service.store.counts(), NO_COUNTS)).recent)
    return LimitList(views, (await service.store.facts()).now, started)


async def one_limit(service: Service, limit: str) -> LimitView:
    """One limit, or one name of a family."""
    return await stored_limits.find_limit(service.store, limit)


async def keys(service: Service, queue: str) -> QueueKeys:
    """The fairness keys of a queue that have work waiting, with their weights and shares."""
    found = await stored_limits.key_shares(service.store, check_name("queue", queue))
    return QueueKeys(queue, found)


async def set_weights(service: Service, queue: str, body: SetWeights) -> Weights:
    """Set weights of fairness keys, until an app that sets the queue starts; they hold at once."""
    return Weights(queue, await stored_limits.set_weights(service.store, queue, body.weights))


async def set_limit(service: Service, limit: str, body: SetLimit) -> LimitView:
    """Set a limit, instead of what apps declare, until it is reset; it holds at once."""
    said = stored_limits.changes(**asdict(body))
    await stored_limits.set_limit(service.store, limit, said)
    return await one_limit(service, limit)


async def reset_limit(service: Service, limit: str) -> ResetLimit:
    """Undo what was set: the limit that apps declare holds again."""
    await stored_limits.reset_limit(service.store, limit)
    return ResetLimit(await stored_limits.seen_limit(service.store, limit))


async def pause_limit(service: Service, limit: str, body: PauseLimit) -> LimitView:
    """Start no job of the limit for so long; running ones go on."""
    await stored_limits.pause_limit(service.store, limit, body.seconds)
    return await one_limit(service, limit)


async def resume_limit(service: Service, limit: str) -> LimitView:
    """End a pause of a limit."""
    await stored_limits.resume_limit(service.store, limit)
    return await one_limit(service, limit)
