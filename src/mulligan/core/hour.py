"""The last hour, from what was counted by the end of each of its minutes.

Once a minute somebody notes the sums so far. What happened in between is the difference of two such
notes, so it does not matter who writes them, nor whether several do.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from msgspec import Struct, json

from mulligan.core.counts import (
    BOUNDS,
    BUCKETS,
    FAILED,
    FRESH_WAIT,
    JOB_FAULT,
    SUCCEEDED,
    SUM,
    read_failure,
    read_runtime,
)
from mulligan.core.errors import UNREADABLE

NOTES = "minute:"
MINUTE = 60.0
HOUR = 3600.0
# A note is kept a little longer than the hour that it is part of.
KEEP_MINUTE = HOUR + 5 * MINUTE

QueueTask = tuple[str, str]
Buckets = list[float]


class Runtimes(Struct, frozen=True):
    """Attempts of a task in a queue that ended so, by how long they took."""

    queue: str
    task: str
    outcome: str
    buckets: Buckets
    sum: float


class FreshWaits(Struct, frozen=True):
    """Jobs of a queue by how long they waited for their first start."""

    queue: str
    buckets: Buckets


class Failures(Struct, frozen=True):
    """Attempts of a task in a queue that failed with this type."""

    queue: str
    task: str
    type: str
    count: float


class Sums(Struct, frozen=True):
    """What was counted by a moment, in all regions together."""

    at: float
    runtimes: list[Runtimes]
    waits: list[FreshWaits]
    failures: list[Failures]


class Times(Struct, frozen=True):
    """Three quantiles in seconds; None if there is nothing to take them from."""

    p50: float | None
    p95: float | None
    p99: float | None


class Interval(Struct, frozen=True):
    """What happened in the seconds before `at`."""

    at: float
    seconds: float
    succeeded: int
    failed: int
    runtime: Times
    wait: Times


class TaskHour(Struct, frozen=True):
    """The last hour of a task in a queue; `failures` are attempts by type of failure."""

    task: str
    queue: str
    succeeded: int
    failed: int
    snoozed: int
    per_minute: float
    runtime: Times
    failures: dict[str, int]


def minute_key(now: float) -> str:
    """The key of the note for the minute that has just begun."""
    return f"{NOTES}{int(now // MINUTE):010d}"


def sums_at(ever: Mapping[tuple[str, str, str], float], now: float) -> Sums:
    """What a note of the minute says."""
    runtimes: dict[tuple[str, str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    waits: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    failures: dict[tuple[str, str, str], float] = defaultdict(float)
    for (queue, _, each), value in sorted(ever.items()):
        if each.startswith(FRESH_WAIT):
            waits[queue][each.removeprefix(FRESH_WAIT)] += value
        elif (runtime := read_runtime(each)) is not None:
            runtimes[queue, runtime.task, runtime.outcome][runtime.bucket] += value
        elif (failure := read_failure(each)) is not None:
            failures[queue, failure.task, failure.type] += value
    return Sums(
        now,
        [Runtimes(*key, listed(counts), counts[SUM]) for key, counts in runtimes.items()],
        [FreshWaits(queue, listed(counts)) for queue, counts in waits.items()],
        [Failures(*key, count) for key, count in failures.items()],
    )


def read_minutes(notes: Mapping[str, bytes], now: float) -> list[Sums]:
    """The notes of the last hour, oldest first, without those that cannot be read."""
    found = []
    for _, written in sorted(notes.items()):
        try:
            sums = _decode(written)
        except UNREADABLE:
            continue
        if now - HOUR - MINUTE <= sums.at < now:
            found.append(sums)
    return found


def intervals(
    minutes: Sequence[Sums], queue: str | None = None, task: str | None = None
) -> list[Interval]:
    """What happened between each two, everywhere or in a queue, or to a task.

    Waits are counted by queue: those of a task are not known.
    """
    found = []
    for before, after in pairwise(minutes):
        runtimes = [
            each
            for each in runtimes_between(before, after)
            if queue in (None, each.queue) and task in (None, each.task)
        ]
        waits = [each for each in waits_between(before, after) if queue in (None, each.queue)]
        found.append(
            Interval(
                after.at,
                after.at - before.at,
                ended(runtimes, SUCCEEDED),
                ended(runtimes, FAILED, JOB_FAULT),
                runtimes_of(runtimes),
                times(each.buckets for each in waits if task is None),
            )
        )
    return found


def tasks_between(first: Sums, last: Sums) -> list[TaskHour]:
    """Every task that ran between two moments, or before: by queue, in the order of their names."""
    seconds = max(last.at - first.at, 1.0)
    runs: dict[QueueTask, list[Runtimes]] = defaultdict(list)
    for each in runtimes_between(first, last):
        runs[each.task, each.queue].append(each)
    types: dict[QueueTask, dict[str, int]] = defaultdict(dict)
    before = {(each.queue, each.task, each.type): each.count for each in first.failures}
    for failed in last.failures:
        count = failed.count - before.get((failed.queue, failed.task, failed.type), 0.0)
        if count > 0:
            types[failed.task, failed.queue][failed.type] = int(count)
    return [
        TaskHour(
            *key,
            ended(runtimes, SUCCEEDED),
            ended(runtimes, FAILED, JOB_FAULT),
            ended(runtimes, "snoozed"),
            round(60.0 * sum(sum(each.buckets) for each in runtimes) / seconds, 3),
            runtimes_of(runtimes),
            dict(sorted(types[key].items(), key=lambda entry: -entry[1])),
        )
        for key, runtimes in sorted(runs.items())
    ]


def quantile_of(buckets: Sequence[float], share: float) -> float | None:
    """About the time within which this share ended: as if each bucket were filled evenly."""
    below = [*accumulate(buckets)]
    if not below or not below[-1]:
        return None
    wanted = share * below[-1]
    index = bisect_left(below, wanted)
    lower = BOUNDS[index - 1] if index else 0.0
    if index == len(BOUNDS) - 1:
        return lower  # the last bucket has no end
    part = (wanted - (below[index] - buckets[index])) / buckets[index]
    return round(lower + part * (BOUNDS[index] - lower), 6)


def times(buckets: Iterable[Sequence[float]], total: float | None = None) -> Times:
    """The quantiles of several histograms together.

    What is all in one bucket took about its mean, if the `total` is known: buckets are wide, and
    few attempts do not fill one evenly.
    """
    together = [sum(each) for each in zip(*buckets, strict=True)]
    filled = [count for count in together if count]
    if total is not None and len(filled) == 1:
        mean = round(total / filled[0], 6)
        return Times(mean, mean, mean)
    return Times(*(quantile_of(together, share) for share in (0.5, 0.95, 0.99)))


def runtimes_of(runtimes: Sequence[Runtimes]) -> Times:
    """How long these attempts took."""
    return times([each.buckets for each in runtimes], sum(each.sum for each in runtimes))


def ended(runtimes: Iterable[Runtimes], *outcomes: str) -> int:
    """How many attempts ended so."""
    return int(sum(sum(each.buckets) for each in runtimes if each.outcome in outcomes))


def runtimes_between(before: Sums, after: Sums) -> list[Runtimes]:
    """The attempts that ended between two moments."""
    known = {(each.queue, each.task, each.outcome): each for each in before.runtimes}
    found = []
    for each in after.runtimes:
        earlier = known.get((each.queue, each.task, each.outcome))
        if earlier is None:
            found.append(each)
        else:
            grown = difference(each.buckets, earlier.buckets)
            rest = max(0.0, each.sum - earlier.sum)
            found.append(Runtimes(each.queue, each.task, each.outcome, grown, rest))
    return found


def waits_between(before: Sums, after: Sums) -> list[FreshWaits]:
    """The first starts between two moments."""
    known = {each.queue: each.buckets for each in before.waits}
    return [
        FreshWaits(each.queue, difference(each.buckets, known.get(each.queue, [])))
        for each in after.waits
    ]


def difference(after: Buckets, before: Buckets) -> Buckets:
    """What was added to each bucket, at least 0: the store may have been emptied meanwhile."""
    known = before if len(before) == len(after) else [0.0] * len(after)
    return [max(0.0, one - other) for one, other in zip(after, known, strict=True)]


def listed(counts: Mapping[str, float]) -> Buckets:
    """The buckets in their order."""
    return [counts.get(bucket, 0.0) for bucket in BUCKETS]


encode = json.encode
_decode = json.Decoder(Sums).decode
