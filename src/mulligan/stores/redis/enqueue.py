"""Accepting jobs: new ones as shared/add.lua reads them."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from mulligan.core.job import Enqueued, NewJob, all_created
from mulligan.stores.redis.connection import Run, Value
from mulligan.stores.redis.fields import (
    JSON,
    OPTIONS,
    Options,
    float_text,
    heading,
    spell_lane,
    untabbed,
)

NO_OPTIONS = b"{}"
RUN_WIDTH, JOB_WIDTH = 4, 2  # as in shared/add.lua

# What the jobs of a run have in common.
run_of = attrgetter("queue", "region", "priority", "delay", *[field.name for field in OPTIONS])


async def enqueue(run: Run, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Accept jobs; the answer names those that were there before."""
    ids = [job.id for job in jobs]
    before = await run("enqueue", int(len(set(ids)) == len(ids)), *runs_values(jobs))
    enqueued = all_created(ids)
    for number, id_ in zip(before[::2], before[1::2], strict=True):
        enqueued[number] = Enqueued(id_.decode(), created=False)
    return enqueued


def runs_values(jobs: Iterable[NewJob]) -> list[Value]:
    """Jobs in runs, cut where the lane or what goes with it changes."""
    values: list[Value] = []
    for (queue, region, priority, delay, *options), run in groupby(jobs, run_of):
        encoded = JSON.encode(Options(*options))
        start = len(values)
        values += (
            spell_lane(queue, region, priority),
            float_text(delay) if delay else "0",
            b"" if encoded == NO_OPTIONS else encoded,
            0,
        )
        for job in run:
            values += (untabbed(job.id), heading(job.task) + job.body)
        values[start + 3] = (len(values) - start - RUN_WIDTH) // JOB_WIDTH
    return values
