"""Any number of jobs, sent as many at a time as a store takes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from mulligan.core.job import Enqueued, NewJob
from mulligan.core.settings import BATCH_LIMIT

Values = TypeVar("Values")
Reply = TypeVar("Reply")
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
    send: Callable[[Batch, Values], Awaitable[Reply]],
    read: Callable[[Batch, Reply], list[Enqueued]],
) -> list[Enqueued]:
    """Have each batch stored before the next is sent.

    Meanwhile the next is encoded, and what was said to the last is read: the store need not wait.
    """
    answers: list[Enqueued] = []
    stored: list[tuple[Batch, Reply]] = []

    async def meanwhile(following: Batch) -> Values:
        values = encode(following)
        if stored:
            answers.extend(read(*stored.pop()))
        return values

    values = encode(batches[0])
    for batch, following in pairwise(batches):
        # in this order, so that the batch is on its way before anything else is done
        reply, values = await asyncio.gather(send(batch, values), meanwhile(following))
        stored.append((batch, reply))
    stored.append((batches[-1], await send(batches[-1], values)))
    for each in stored:
        answers.extend(read(*each))
    return answers
