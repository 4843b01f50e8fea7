"""Accepts jobs, each in its home. Those of one shard are accepted as a whole or not at all."""

from collections.abc import Sequence

from mulligan.core.errors import ShardAwayError
from mulligan.core.job import Adopted, Enqueued, Job, NewJob
from mulligan.core.limit_homes import limits_of
from mulligan.core.settings import check_batch
from mulligan.core.shards import home_of
from mulligan.stores.shards.connection import Shards, by_shard
from mulligan.stores.shards.named_limits import know


async def enqueue(shards: Shards, jobs: Sequence[NewJob], *, whole: bool) -> list[Enqueued]:
    """Accept the jobs of each shard together; with `whole` a batch that may be of any length."""
    homes = await homes_of(shards, jobs)
    if not whole:
        check_batch(len(jobs))
    parts = by_shard(homes)

    absent: list[ShardAwayError] = []

    async def send(home: int, indexes: list[int]) -> list[Enqueued]:
        part = jobs if len(parts) == 1 else [jobs[index] for index in indexes]
        try:
            return await shards.at(
                home, lambda store: store.enqueue_all(part) if whole else store.enqueue(part)
            )
        except ShardAwayError as error:
            absent.append(error)
            return []

    sent = await shards.together([send(home, indexes) for home, indexes in parts.items()])
    accepted: dict[int, Enqueued] = {}
    for (home, indexes), part in zip(parts.items(), sent, strict=True):
        for index, answer in zip(indexes, part, strict=bool(part)):
            accepted[index] = answer
            shards.memory.remember(answer.id, home, shards.layout)
    if absent:
        said = "; ".join(map(str, absent))
        if accepted:
            said += (
                f"; {len(accepted)} of {len(jobs)} jobs are accepted, in other shards: enqueue the"
                " same calls again, and none of them is stored twice"
            )
        raise ShardAwayError(said, [accepted.get(index) for index in range(len(jobs))])
    return [accepted[index] for index in range(len(jobs))]


async def homes_of(shards: Shards, jobs: Sequence[NewJob | Job]) -> list[int]:
    """The home of each job; refuses what has none before anything is written."""
    named = {name for job in jobs for name in limits_of(job)}
    await know(shards, named)
    homes = shards.memory.limit_homes
    return [home_of(job, shards.layout, homes) for job in jobs]


async def adopt(shards: Shards, jobs: Sequence[Adopted]) -> list[bool]:
    """Take over jobs of another store, each into its home."""
    check_batch(len(jobs))
    homes = await homes_of(shards, [each.job for each in jobs])
    answers = [False] * len(jobs)

    async def take(home: int, part: list[Adopted]) -> list[bool]:
        return await shards.at(home, lambda store: store.adopt(part))

    for home, indexes in by_shard(homes).items():
        taken = await take(home, [jobs[index] for index in indexes])
        for index, answer in zip(indexes, taken, strict=True):
            answers[index] = answer
            shards.memory.remember(jobs[index].job.id, home, shards.layout)
    return answers
