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

NOTHING = Options()
# As in shared/add.lua: what the options are of jobs that say nothing but a fairness key each.
KEYED = "*"

# What the jobs of a run have in common, but for their fairness keys.
COMMON = [field.name for field in OPTIONS if field.name != "fairness_key"]
run_of = attrgetter("queue", "region", "priority", "delay", *COMMON)
key_of = attrgetter("fairness_key")


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
    for (queue, region, priority, delay, *common), alike in groupby(jobs, run_of):
        run = list(alike)
        options = Options(**dict(zip(COMMON, common, strict=True)))
        place = spell_lane(queue, region, priority), float_text(delay) if delay else "0"
        keys = set(map(key_of, run))
        if len(keys) > 1 and None not in keys and options == NOTHING:
            values += (*place, KEYED, len(run))
            for job in run:
                values += (untabbed(job.id), heading(job.task) + job.body, job.fairness_key)
            continue
        for options.fairness_key, same in groupby(run, key_of):
            members = run if len(keys) == 1 else list(same)
            values += (*place, b"" if options == NOTHING else JSON.encode(options), len(members))
            for job in members:
                values += (untabbed(job.id), heading(job.task) + job.body)
    return values
