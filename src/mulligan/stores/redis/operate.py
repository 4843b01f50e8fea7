"""Operating the store: facts, counts and breakers, and jobs of another store."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import msgspec

from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings, Region, read_settings
from mulligan.core.health import CLOSED, Breaker, Health, changes_plans
from mulligan.core.job import TOKENS_PER_LIFE, Adopted, Job
from mulligan.stores.redis.connection import Value
from mulligan.stores.redis.fields import (
    JSON,
    UNPACK,
    attempt_text,
    escape,
    float_text,
    heading,
    lane_name,
    spell_lane,
    state_of,
    untabbed,
)
from mulligan.stores.redis.record import adopted_values

SETTINGS = msgspec.json.Decoder(QueueSettings)
# By field, the letter by which scripts know that a job has it. As in shared/marks.lua.
MARKS = {
    "unique_key": "u",
    "expires_at": "e",
    "gather": "g",
    "keep": "t",
}


def facts_of(packed: bytes) -> Facts:
    """What plans are made from."""
    now, epoch, settings, regions, serving, paused, healths = UNPACK.decode(packed)
    serves: dict[str, set[str]] = {name: set() for name in sorted(regions)}
    for name in serving:
        region, *queues = map(unquote, name.split(":"))
        serves[region].update(queues)
    return Facts(
        epoch,
        {queue: read_settings(queue, text) for queue, text in settings},
        tuple(Region(name, frozenset(queues)) for name, queues in serves.items()),
        frozenset(paused),
        healths_of(healths),
        float(now),
    )


def settings_text(settings: QueueSettings) -> bytes:
    """Settings as they read when they come back, so that 2 and 2.0 are the same."""
    return JSON.encode(SETTINGS.decode(JSON.encode(settings)))


@lru_cache(maxsize=4096)
def region_name(queue: str, region: str) -> str:
    """The queue and the region as the name of a sum spells them."""
    return f"{escape(queue)}:{escape(region)}"


@lru_cache(maxsize=4096)
def region_of(name: str) -> tuple[str, str]:
    """The queue and the region that a name spells."""
    queue, region = name.split(":")
    return unquote(queue), unquote(region)


def count_values(counts: Iterable[Count]) -> list[Value]:
    """Three values for each count."""
    values: list[Value] = []
    for queue, region, name, value in counts:
        values += (region_name(queue, region), name, float_text(value))
    return values


def counts_of(answer: list[list[bytes]]) -> Counts:
    """What counts.lua gave: the sums since ever, then those of each recent slot."""
    ever, *slots = answer
    return Counts(sums_of([ever]), sums_of(slots))


def sums_of(hashes: Iterable[list[bytes]]) -> dict[tuple[str, str, str], float]:
    """Hashes of sums, added up."""
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    for cells in hashes:
        for field, value in zip(cells[::2], cells[1::2], strict=True):
            queue, region, name = field.decode().split(":", 2)
            sums[unquote(queue), unquote(region), name] += float(value)
    return dict(sums)


def healths_of(rows: Iterable[Sequence[Any]]) -> dict[tuple[str, str], Health]:
    """The health of each queue and region, as shared/health.lua gives it."""
    return {
        region_of(name): Health(int(succeeded), int(failed), breaker_of(breaker))
        for name, succeeded, failed, breaker in rows
    }


def breaker_of(text: str) -> Breaker:
    """A breaker as it is kept; one that was never switched is closed."""
    if not text:
        return CLOSED
    position, since, probes, probed_at = text.split()
    return Breaker(position == "open", float(since), int(probes), float(probed_at))


def switch_values(before: Breaker, after: Breaker) -> tuple[str | int, ...]:
    """What switch.lua reads after the queue and the region."""
    return (
        *(position(before), float_text(before.since)),
        *(before.probes, float_text(before.probed_at)),
        *(position(after), after.probes, float_text(after.probed_at)),
        int(changes_plans(before, after)),
    )


def position(breaker: Breaker) -> str:
    """The word by which a breaker is kept."""
    return "open" if breaker.open else "closed"


def adopt_values(adopted: Adopted) -> list[Value]:
    """A job of another store as adopt.lua reads it: itself, then what is kept beside it."""
    job = adopted.job
    history: list[Value] = [attempt_text(attempt) for attempt in adopted.history]
    state = adopted_state(job)
    arrived: list[Value] = []
    for index, result in adopted.arrived.items():
        arrived += (index, b"" if result is None else b"=" + result)
    records = adopted_values(job, adopted.records)
    return [
        untabbed(job.id),
        lane_name(job.lane),
        repr(job.due),
        int(job.status == "failed"),
        job_text(job),
        len(history),
        len(state),
        len(arrived),
        len(records),
        *history,
        *state,
        *arrived,
        *records,
    ]


def job_text(job: Job) -> bytes:
    """The job as it was enqueued, but for the sequence that this store gives it."""
    lane = spell_lane(job.queue, job.region, job.priority)
    return f"{float_text(job.created_at)}\t{lane}\t".encode() + heading(job.task) + job.body


def adopted_state(job: Job) -> list[Value]:
    """The fields of the job's state, each with its value."""
    state = state_of(job)
    # This store decides anew whether its limits have room, and of a pending job nothing has ended.
    state.pop("waits_for", None)
    if job.status != "failed":
        state.pop("ended_at", None)
    used = job.token % TOKENS_PER_LIFE
    state["adopted"] = str(used)
    state["counts"] = f"{used} {job.retry_count} {job.replay} {job.snoozes}"
    is_lined = "limits" in state or "fairness_key" in state
    marks = [mark for name, mark in MARKS.items() if name in state]
    state["marks"] = "".join([*marks, "l" if is_lined else ""])
    if job.started_at is not None:
        state["ran"] = f"{job.started_at!r} "
    return [part for entry in state.items() for part in entry]
