"""Outcomes and records, each written in the shard of its job."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mulligan.core.errors import ShardAwayError
from mulligan.core.outcome import Cancelled, Limited, LimitUse, Outcome, Verdict
from mulligan.core.record import Recording, RecordVerdict
from mulligan.core.settings import check_batch
from mulligan.core.shards import HOME
from mulligan.stores.contract import Store
from mulligan.stores.shards.connection import Shards, by_shard

Item = TypeVar("Item", Outcome, Recording)
Answer = TypeVar("Answer", bound=str)
ELSEWHERE = (
    "its task has limits, which live in shard 0, and another program put it into shard {}; put jobs"
    " of tasks with limits into shard 0"
)


async def commit(shards: Shards, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Write each outcome where its job is."""
    check_batch(len(outcomes))

    async def send(number: int, part: list[Outcome]) -> list[Verdict]:
        meant = part if number == HOME else [allowed(each, number) for each in part]
        verdicts = await shards.at(number, lambda store: store.commit(meant))
        if number != HOME:
            for outcome, verdict in zip(part, verdicts, strict=True):
                use: LimitUse | None = getattr(outcome, "use", None)
                if verdict == "written" and use is not None and (use.pauses or use.spent):
                    await tell_home(shards, use)
        return verdicts

    return await written(shards, outcomes, send)


def allowed(outcome: Outcome, number: int) -> Outcome:
    """The outcome as it can be in a shard that has no limits."""
    if isinstance(outcome, Limited) and outcome.limits is not None:
        return Cancelled(outcome.lease, ELSEWHERE.format(number))
    return outcome


async def tell_home(shards: Shards, use: LimitUse) -> None:
    """Charge and pause limits in their home shard, after a job of another shard."""

    async def tell(home: Store) -> None:
        for name, cost in use.spent:
            await home.spend(name, cost)
        for name, seconds in use.pauses:
            await home.pause_limit(name, seconds, at_least=True)

    await shards.home_at(tell)


async def record(shards: Shards, recordings: Sequence[Recording]) -> list[RecordVerdict]:
    """Keep each recording where its job is."""
    check_batch(len(recordings))

    async def send(number: int, part: list[Recording]) -> list[RecordVerdict]:
        return await shards.at(number, lambda store: store.record(part))

    return await written(shards, recordings, send)


async def written(
    shards: Shards,
    items: Sequence[Item],
    send: Callable[[int, list[Item]], Awaitable[list[Answer]]],
) -> list[Answer]:
    """Send each to the shard where its job should be; what is stale there, to all others."""
    places = [shards.where(item.lease.job) for item in items]
    parts = by_shard(places)
    absent: list[ShardAwayError] = []

    async def tried(number: int, indexes: list[int]) -> list[Answer] | None:
        try:
            return await send(number, [items[index] for index in indexes])
        except ShardAwayError as error:
            absent.append(error)
            return None

    sent = await shards.together([tried(number, indexes) for number, indexes in parts.items()])
    verdicts: dict[int, Answer] = {}
    for indexes, part in zip(parts.values(), sent, strict=True):
        if part is not None:
            verdicts.update(zip(indexes, part, strict=True))
    stale = [index for index, verdict in verdicts.items() if verdict == "stale"]
    for shard in shards.present:
        again = [index for index in stale if places[index] != shard.number]
        if not again:
            continue
        part = await tried(shard.number, again)
        for index, verdict in zip(again, part or (), strict=part is not None):
            if verdict != "stale":
                verdicts[index] = verdict
                stale.remove(index)
                shards.memory.remember(items[index].lease.job, shard.number, shards.layout)
    if absent:
        said = [verdicts.get(index) for index in range(len(items))]
        raise ShardAwayError(str(absent[0]), said)  # type: ignore[arg-type]
    return [verdicts[index] for index in range(len(items))]
