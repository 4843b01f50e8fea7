"""The routes that change jobs and queues."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import UNSET

from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError
from mulligan.core.job import Status
from mulligan.core.settings import BATCH_LIMIT
from mulligan.server.jobs_api import selection
from mulligan.server.problems import Refusal
from mulligan.server.service import Service
from mulligan.server.shapes.jobs import (
    COUNT_LIMIT,
    CancelChange,
    Change,
    Changed,
    Counted,
    Filter,
    ReplayChange,
    Switched,
)
from mulligan.stores.contract import Store

Apply = Callable[[Sequence[str]], Awaitable[list[bool]]]
# Of how many jobs that could not be changed it is said why.
MOST_REASONS = 100


class Kind(NamedTuple):
    """A kind of change: the statuses that a job may have for it, and its word for `refused`."""

    statuses: tuple[Status, ...]
    done: str
    otherwise: str = "it changed meanwhile; look at it again"


CANCEL = Kind(("pending", "processing"), "cancelled")
REPLAY = Kind(("failed",), "replayed", "another job has its unique key, and has not ended")
PURGE = Kind(("done", "failed", "cancelled"), "purged")


async def count(service: Service, query: Filter) -> Counted:
    """How many jobs match, counted up to 10,000: the number that a change must expect."""
    ids, more = await matching(service.store, query)
    return Counted(len(ids), more)


async def cancel(service: Service, body: CancelChange) -> Changed:
    """End pending and running jobs; the lease of a running one becomes stale."""
    store = service.store
    return await change(service, body, CANCEL, lambda ids: store.cancel(ids, body.reason))


async def replay(service: Service, body: ReplayChange) -> Changed:
    """Give failed jobs all their retries again; their history is kept.

    Recorded steps do not run again, unless they begin `from_start`.
    """
    apply = partial(service.store.replay, from_start=body.from_start)
    return await change(service, body, REPLAY, apply)


async def purge(service: Service, body: Change) -> Changed:
    """Delete jobs that have ended, with their history."""
    return await change(service, body, PURGE, service.store.purge)


async def pause(service: Service, queue: str) -> Switched:
    """Start no more jobs of the queue; running ones go on."""
    await service.store.pause(check_name("queue", queue), paused=True)
    return Switched(queue, paused=True)


async def resume(service: Service, queue: str) -> Switched:
    """Undo a pause."""
    await service.store.pause(check_name("queue", queue), paused=False)
    return Switched(queue, paused=False)


async def change(service: Service, asked: Change, kind: Kind, apply: Apply) -> Changed:
    """Apply the change to the jobs named, or to a selection that still has the expected number."""
    if (asked.ids is UNSET) == (asked.selection is UNSET):
        raise InvalidError("give ids or a selection, and not both")
    if asked.ids is not UNSET:
        if asked.expected is not UNSET:
            raise InvalidError(f"expected {asked.expected} goes with a selection, not with ids")
        ids = list(dict.fromkeys(asked.ids))
        return await applied(service.store, ids, kind, apply, more=False)
    assert asked.selection is not UNSET  # noqa: S101 - one of the two is given
    status, allowed = asked.selection.status, " or ".join(kind.statuses)
    if status not in kind.statuses:
        raise InvalidError(
            f"status {status!r} of the selection must be {allowed}"
            if status is not UNSET
            else f"the selection needs a status: {allowed}"
        )
    if asked.expected is UNSET:
        raise InvalidError("a selection needs the number expected; ask GET /api/count first")
    ids, more = await matching(service.store, asked.selection)
    if len(ids) != asked.expected:
        raise Refusal(
            "changed",
            f"expected {asked.expected} jobs, and {len(ids)} match now; nothing was done;"
            " ask GET /api/count again",
        )
    return await applied(service.store, ids, kind, apply, more=more)


async def applied(
    store: Store, ids: Sequence[str], kind: Kind, apply: Apply, *, more: bool
) -> Changed:
    """Apply the change in batches, and say why the first of those refused could not be changed."""
    refused: list[str] = []
    for start in range(0, len(ids), BATCH_LIMIT):
        part = ids[start : start + BATCH_LIMIT]
        answers = await apply(part)
        refused += [job for job, done in zip(part, answers, strict=True) if not done]
    reasons = {job: await reason(store, job, kind) for job in refused[:MOST_REASONS]}
    return Changed(len(ids) - len(refused), refused, more, reasons)


async def reason(store: Store, job: str, kind: Kind) -> str:
    """Why a job could not be changed so."""
    found = await store.get(job)
    if found is None:
        return "it is not stored"
    if found.status not in kind.statuses:
        return f"it is {found.status}; only {' or '.join(kind.statuses)} jobs can be {kind.done}"
    return kind.otherwise


async def matching(store: Store, asked: Filter) -> tuple[list[str], bool]:
    """The ids of the jobs that match, up to the limit, and whether there are more."""
    wanted = selection(asked)
    ids: list[str] = []
    after: str | None = None
    while len(ids) < COUNT_LIMIT:
        most = min(BATCH_LIMIT, COUNT_LIMIT - len(ids))
        page = await store.page(wanted, most, after, bodies=False)
        ids += [job.id for job in page.jobs]
        after = page.after
        if after is None:
            return ids, False
    return ids, True
