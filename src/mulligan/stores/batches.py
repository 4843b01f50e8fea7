"""Any number of jobs, sent as many at a time as a store takes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from mulligan.core.job import Enqueued, NewJob
from mulligan.core.settings import BATCH_LIMIT

Values = TypeVar("Values")
Batch = Sequence[NewJob]


def batches_of(jobs: Sequence[NewJob]) -> list[Batch]:
    """The jobs in their order, cut into batches."""
    return [jobs[start : start + BATCH_LIMIT] for start in range(0, len(jobs), BATCH_LIMIT)]


async def batch_by_batch(
    enqueue: Callable[[Batch], Awaitable[list[Enqueued]]], jobs: Sequence[NewJob]
) -> list[Enqueued]:
    """Have each batch stored before the next is looked at."""
    return [answer for batch in batches_of(jobs) for answer in await enqueue(batch)]


async def one_ahead(
    batches: Sequence[Batch],
    encode: Callable[[Batch], Values],
    send: Callable[[Batch, Values], Awaitable[list[Enqueued]]],
) -> list[Enqueued]:
    """Have each batch stored before the next is sent, which is encoded meanwhile."""

    async def encoded(batch: Batch) -> Values:
        return encode(batch)

    answers: list[Enqueued] = []
    values = encode(batches[0])
    for batch, following in pairwise(batches):
        # in this order, so that the batch is on its way before the next is looked at
        stored, values = await asyncio.gather(send(batch, values), encoded(following))
        answers += stored
    return answers + await send(batches[-1], values)
