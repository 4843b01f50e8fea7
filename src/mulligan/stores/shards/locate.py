"""Finds the shard of a job that is not where its id says."""

from collections.abc import Iterable

from mulligan.core.job import Job
from mulligan.stores.shards.connection import Shards


async def found(shards: Shards, job: str) -> tuple[int, Job] | None:
    """The job and its shard, looked for where it should be, and then everywhere."""
    return await found_at(shards, job, [shards.where(job), *shards.others(job)])


async def found_at(shards: Shards, job: str, numbers: Iterable[int]) -> tuple[int, Job] | None:
    """The job and its shard, looked for in these.

    If it is in none that answers, and one of them is away, that is raised: it may be there.
    """
    absent = None
    for number in numbers:
        if not shards.answers(shards.all[number]):
            absent = number
            continue
        seen = await shards.at(number, lambda store: store.get(job))
        if seen is not None:
            shards.memory.remember(job, number, shards.layout)
            return number, seen
    if absent is not None:
        await shards.at(absent, lambda store: store.get(job))
    return None
