"""Reads: of one job where it is, and of everything from all shards that answer."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from mulligan.core.errors import UnknownJobError
from mulligan.core.job import Job, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView
from mulligan.core.settings import check_batch
from mulligan.core.shard_merge import merged_keys, merged_stats
from mulligan.core.stats import Stats
from mulligan.stores.contract import Store
from mulligan.stores.shards.connection import Shards
from mulligan.stores.shards.locate import found
from mulligan.stores.watches import Tell, Watch

T = TypeVar("T")


async def get(shards: Shards, job: str) -> Job | None:
    """The job, wherever it is."""
    seen = await found(shards, job)
    return None if seen is None else seen[1]


async def statuses(shards: Shards, jobs: Sequence[str]) -> dict[str, Status]:
    """The statuses of the stored ones of these jobs, each looked for as a single job is."""
    check_batch(len(jobs))
    answers: dict[str, Status] = {}
    for places in ((lambda job: [shards.where(job)]), shards.others):
        parts: dict[int, list[str]] = {}
        for job in jobs:
            for number in () if job in answers else places(job):
                parts.setdefault(number, []).append(job)
        for number, part in parts.items():
            answers |= await shards.at(number, partial(statuses_in, part))
    return answers


async def statuses_in(jobs: Sequence[str], store: Store) -> dict[str, Status]:
    """The statuses that one shard knows."""
    return await store.statuses(jobs)


async def of_job(shards: Shards, job: str, read: Callable[[Store], Awaitable[T]]) -> T:
    """What is read of a job: from where it should be, or if nothing is there, from where it is."""
    number = shards.where(job)
    answer = await shards.at(number, read)
    if answer:
        return answer
    seen = await found(shards, job)
    return answer if seen is None or seen[0] == number else await shards.at(seen[0], read)


async def ahead(shards: Shards, job: str) -> int:
    """How many jobs stand before this one in its lane, in its shard."""
    seen = await found(shards, job)
    if seen is None:
        raise UnknownJobError(f"no job {job!r} is stored")
    return await shards.at(seen[0], lambda store: store.ahead(job))


async def watch(shards: Shards, job: str, tell: Tell) -> Watch:
    """Have `tell` called when the job ends, by the shard where it should be."""
    return await shards.at(shards.where(job), lambda store: store.watch(job, tell))


async def stats(shards: Shards) -> Stats:
    """The sums, and each shard by itself."""
    answers = await shards.each(lambda shard: shard.store.stats())
    waiting = {
        number: sum(lane.ready + lane.delayed for lane in each.lanes) for number, each in answers
    }
    running = {number: sum(each.running.values()) for number, each in answers}
    return merged_stats([each for _, each in answers], shards.views(waiting, running))


async def keys(shards: Shards, queue: str, most: int) -> list[KeyView]:
    """The fairness keys of the queue over all shards."""
    answers = await shards.each(lambda shard: shard.store.keys(queue, most))
    return merged_keys((view for _, views in answers for view in views), most)


async def depth(shards: Shards, lane: Lane, limit: int) -> int:
    """How many jobs of the lane could start now, in all shards."""
    answers = await shards.each(lambda shard: shard.store.depth(lane, limit))
    return min(limit, sum(number for _, number in answers))


async def tail(shards: Shards, lane: Lane, due: float) -> str | None:
    """Of the last of each shard that which is due last."""
    answers = await shards.each(lambda shard: shard.store.tail(lane, due))
    last: list[tuple[float, int, str]] = []

    async def look(number: int, job: str) -> Job | None:
        return await shards.at(number, lambda store: store.get(job))

    for number, job in answers:
        if job is not None:
            seen = await look(number, job)
            last += [] if seen is None else [(seen.due, number, job)]
    return max(last)[2] if last else None
