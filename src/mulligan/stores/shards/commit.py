"""Outcomes and records, each written in the shard of its job."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from mulligan.core.errors import ShardAwayError
from mulligan.core.limit_homes import home_of_limit, home_of_limits
from mulligan.core.limits import costs_of, covering
from mulligan.core.outcome import Cancelled, Limited, LimitUse, Outcome, Verdict
from mulligan.core.record import Recording, RecordVerdict
from mulligan.core.settings import check_batch
from mulligan.core.shards import HOME
from mulligan.stores.shards import named_limits
from mulligan.stores.shards.connection import Shards, by_shard

Item = TypeVar("Item", Outcome, Recording)
Answer = TypeVar("Answer", bound=str)
ELSEWHERE = (
    "its task has limits, which live in shard {}, and another program put it into shard {}; put"
    " jobs of tasks with limits into the shard of these"
)


async def commit(shards: Shards, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Write each outcome where its job is."""
    check_batch(len(outcomes))
    told = [limits_told(each) for each in outcomes]
    try:
        await named_limits.know(shards, {name for names in told for name in names})
    except ShardAwayError as error:
        # What names a limit of which nobody knows where it lives has to wait, and nothing else.
        homes = shards.memory.limit_homes
        known = [all(covering(name, homes) for name in names) for names in told]
        rest = [each for each, is_known in zip(outcomes, known, strict=True) if is_known]
        verdicts = iter(await answered(write(shards, rest)))
        said = [next(verdicts) if is_known else None for is_known in known]
        raise ShardAwayError(str(error), said) from error
    return await write(shards, outcomes)


async def answered(writing: Awaitable[list[Verdict]]) -> list[Verdict | None]:
    """What the shards have answered that are not away."""
    try:
        return [*await writing]
    except ShardAwayError as error:
        return error.answers


async def write(shards: Shards, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Write outcomes that name only limits whose homes are known."""

    async def send(number: int, part: list[Outcome]) -> list[Verdict]:
        fits = [fitted(shards, each, number) for each in part]
        meant = [here for here, _ in fits]
        verdicts = await shards.at(number, lambda store: store.commit(meant))
        for (_, elsewhere), verdict in zip(fits, verdicts, strict=True):
            if verdict == "written" and elsewhere is not None:
                await tell_homes(shards, elsewhere)
        return verdicts

    return await written(shards, outcomes, send)


def limits_told(outcome: Outcome) -> list[str]:
    """The limits that the outcome gives to its job, charges or pauses."""
    if isinstance(outcome, Limited):
        return [name for name, _ in costs_of(outcome.limits)]
    use: LimitUse | None = getattr(outcome, "use", None)
    return [] if use is None else [name for name, _ in (*use.spent, *use.pauses)]


def fitted(shards: Shards, outcome: Outcome, number: int) -> tuple[Outcome, LimitUse | None]:
    """The outcome as it can be in this shard, and what it says of limits of others."""
    homes = shards.memory.limit_homes
    if isinstance(outcome, Limited) and outcome.limits is not None:
        home = home_of_limits(limits_told(outcome), homes)
        if home != number:
            return Cancelled(outcome.lease, ELSEWHERE.format(home, number)), None
    use: LimitUse | None = getattr(outcome, "use", None)
    if use is None or not (use.spent or use.pauses):
        return outcome, None

    def mine(name: str) -> bool:
        return (home_of_limit(name, homes) or HOME) == number

    elsewhere = LimitUse(
        tuple([each for each in use.spent if not mine(each[0])]),
        tuple([each for each in use.pauses if not mine(each[0])]),
    )
    if not (elsewhere.spent or elsewhere.pauses):
        return outcome, None
    here = replace(
        use,
        spent=tuple([each for each in use.spent if mine(each[0])]),
        pauses=tuple([each for each in use.pauses if mine(each[0])]),
    )
    return replace(outcome, use=here), elsewhere


async def tell_homes(shards: Shards, use: LimitUse) -> None:
    """Charge and pause limits in their homes, after a job of another shard."""
    for name, cost in use.spent:
        await named_limits.spend(shards, name, cost)
    for name, seconds in use.pauses:
        await named_limits.pause_limit(shards, name, seconds, at_least=True)


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
        raise ShardAwayError(str(absent[0]), [verdicts.get(index) for index in range(len(items))])
    return [verdicts[index] for index in range(len(items))]
