"""What operators and chores do: in all shards, in the home shard, or where the job is."""

from collections.abc import Awaitable, Callable, Sequence

from mulligan.core.facts import QueueSettings
from mulligan.core.health import Breaker, changes_plans
from mulligan.core.job import NewJob
from mulligan.core.limit_homes import limits_of
from mulligan.core.reschedule import Reschedule
from mulligan.core.schedule import read_schedules
from mulligan.core.settings import check_batch
from mulligan.core.shards import CARD, HOME, HOMES, check_scheduled, check_settings
from mulligan.stores.contract import Store
from mulligan.stores.shards.connection import Operation, Shard, Shards, by_shard
from mulligan.stores.shards.named_limits import know
from mulligan.stores.shards.schema import refuse_older_plans


async def configure(shards: Shards, queue: str, settings: QueueSettings) -> None:
    """Store the settings in every shard; one that is away is told when it is back."""
    check_settings(queue, settings, shards.count)
    await home_first(shards, lambda store: store.configure(queue, settings))


async def pause(shards: Shards, queue: str, *, paused: bool) -> None:
    """Stop or resume claims from a queue, in every shard."""
    await home_first(shards, lambda store: store.pause(queue, paused=paused))


async def home_first(shards: Shards, change: Operation[None]) -> None:
    """Make a change in the home, which must answer, and then in all others that do."""
    await shards.home_at(change)
    others = [each for each in shards.present if each.number != HOME]
    if others:
        await shards.each(lambda shard: change(shard.store), others)


async def switch(shards: Shards, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
    """Replace a breaker, in the home of counts; the other shards refuse plans made before."""
    done = await shards.home_at(lambda store: store.switch(queue, region, before, after))
    if done and changes_plans(before, after):
        await refuse_older_plans(shards)
    return done


async def reschedule(shards: Shards, change: Reschedule) -> bool:
    """Replace the record of a schedule, and its ticks, in the home of schedules.

    One that ticks is refused when it is stored if its ticks could not be placed there.
    """
    calls = [*change.place, *called_by(change)]
    await know(shards, {name for job in calls for name in limits_of(job)})
    for job in calls:
        check_scheduled(change.name, job, shards.memory.limit_homes)
    return await shards.home_at(lambda store: store.reschedule(change))


def called_by(change: Reschedule) -> list[NewJob]:
    """The call of the schedule as it will be, if it ticks."""
    records = {} if change.after is None else {change.name: change.after}
    found = [each.schedule for each in read_schedules(records).values()]
    return [each.new_job(each.name, 0.0) for each in found if each.state == "active"]


async def schedules(shards: Shards) -> dict[str, bytes]:
    """The records by name."""
    records = await shards.home_at(lambda store: store.schedules())
    return {name: record for name, record in records.items() if name not in (CARD, HOMES)}


async def until_met(
    shards: Shards, chore: str, limit: int, work: Callable[[Store, int], Awaitable[int]]
) -> int:
    """Do a chore in those shards whose turn it is, one after the other, so much in all."""
    done = 0

    async def some(shard: Shard) -> int:
        return await work(shard.store, limit - done)

    for shard in shards.in_turn(chore):
        if done >= limit:
            break
        answer = await shards.tried(shard, some)
        done += 0 if answer is None else answer[0]
    return done


async def change_jobs(
    shards: Shards,
    jobs: Sequence[str],
    change: Callable[[Store, list[str]], Awaitable[list[bool]]],
) -> list[bool]:
    """Change each job where it should be; what was not changed there, wherever else it may be."""
    check_batch(len(jobs))
    places = [shards.where(job) for job in jobs]
    answers = [False] * len(jobs)

    async def send(number: int, indexes: list[int]) -> None:
        part = [jobs[index] for index in indexes]
        done = await shards.at(number, lambda store: change(store, part))
        for index, answer in zip(indexes, done, strict=True):
            answers[index] = answer

    for number, indexes in by_shard(places).items():
        await send(number, indexes)
    for shard in shards.present:
        number = shard.number
        left = [index for index in range(len(jobs)) if not answers[index]]
        again = [index for index in left if places[index] != number]
        if again:
            await send(number, again)
    return answers
