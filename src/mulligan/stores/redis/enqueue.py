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
# As in shared/add.lua: what the options are of jobs that say nothing but a fairness key each.
KEYED = "*"

# What the jobs of a run have in common, but for their fairness keys.
COMMON = [field.name for field in OPTIONS if field.name != "fairness_key"]
KEY_AT = [field.name for field in OPTIONS].index("fairness_key")
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
    """Jobs in runs; a new run begins where the lane or the options change."""
    values: list[Value] = []
    for (queue, region, priority, delay, *common), alike in groupby(jobs, run_of):
        run, lane_and_delay = list(alike), (spell_lane(queue, region, priority), delay_text(delay))
        keys = {job.fairness_key for job in run}
        if len(keys) == 1:
            add_run(values, lane_and_delay, options_text(common, *keys), run)
        elif None in keys or options_text(common, None):
            for key, same in groupby(run, key_of):
                add_run(values, lane_and_delay, options_text(common, key), list(same))
        else:
            values += (*lane_and_delay, KEYED, len(run))
            for job in run:
                values += (untabbed(job.id), heading(job.task) + job.body, job.fairness_key or "")
    return values


def add_run(
    values: list[Value], lane_and_delay: tuple[str, str], options: bytes, run: Sequence[NewJob]
) -> None:
    """Add jobs that have their lane and these options in common."""
    values += (*lane_and_delay, options, len(run))
    for job in run:
        values += (untabbed(job.id), heading(job.task) + job.body)


def delay_text(delay: float) -> str:
    """The delay as the script reads it."""
    return float_text(delay) if delay else "0"


def options_text(common: list[object], key: str | None) -> bytes:
    """The options of a run with this fairness key; nothing if all have their defaults."""
    encoded = JSON.encode(Options(*common[:KEY_AT], key, *common[KEY_AT:]))
    return b"" if encoded == NO_OPTIONS else encoded
