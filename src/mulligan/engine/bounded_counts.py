"""What a process counts by name until it reports: runtimes by task, failures, starts by limit.

A process counts the first tasks, types of failure and limits that it meets by their names, and all
others together, so that what a store keeps has a bound.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator

from mulligan.core.counts import (
    BOUNDS,
    BUCKETS,
    FRESH_WAIT,
    LIMIT_STARTED,
    MOST_COUNTED_LIMITS,
    OTHER,
    SUM,
    Count,
    FailureName,
    RuntimeName,
    read_failure,
)
from mulligan.core.limits import costs_of, covering

# How many tasks, and how many types of failure of all tasks, have a name of their own.
MOST_TASKS = 200
MOST_TYPES = 500


class Histogram:
    """How many values fell into each bucket, and their sum."""

    __slots__ = ("buckets", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * len(BOUNDS)
        self.sum = 0.0

    def counts(self) -> Iterator[tuple[str, float]]:
        """The buckets with something in them, and the sum, by their names."""
        for bucket, count in zip(BUCKETS, self.buckets, strict=True):
            if count:
                yield bucket, count
        yield SUM, self.sum


class TaskTimes:
    """Gathers times; `take` gives them as counts and begins anew."""

    def __init__(self) -> None:
        self._tasks: set[str] = set()
        self._failures: set[FailureName] = set()
        self._runtimes: dict[tuple[str, str, str, str], Histogram] = {}
        self._waits: dict[tuple[str, str], Histogram] = {}

    def waited(self, queue: str, region: str, seconds: float) -> None:
        """A fresh job started so long after it was due; a clock that was set back is no wait."""
        waits = self._waits.get((queue, region))
        if waits is None:
            waits = self._waits[queue, region] = Histogram()
        waits.buckets[bisect_left(BOUNDS, seconds)] += 1
        if seconds > 0:
            waits.sum += seconds

    def ran(self, queue: str, region: str, task: str, outcome: str, seconds: float) -> None:
        """An attempt ended so after this time."""
        runtimes = self._runtimes.get((queue, region, task, outcome))
        if runtimes is None:
            key = queue, region, self._name(task), outcome
            runtimes = self._runtimes.setdefault(key, Histogram())
        runtimes.buckets[bisect_left(BOUNDS, seconds)] += 1
        runtimes.sum += seconds

    def bounded(self, name: str) -> str:
        """The name under which a failure is counted: that of its type and task, within bounds."""
        failure = read_failure(name)
        if failure is None:
            return name
        task = self._name(failure.task)
        pair = FailureName(failure.type, task)
        if pair not in self._failures:
            if len(self._failures) >= MOST_TYPES:
                return FailureName(OTHER, task).written
            self._failures.add(pair)
        return pair.written

    def take(self) -> list[Count]:
        """All that was gathered since the last time."""
        found = [
            Count(queue, region, RuntimeName(outcome, bucket, task).written, value)
            for (queue, region, task, outcome), times in self._runtimes.items()
            for bucket, value in times.counts()
        ]
        found += [
            Count(queue, region, FRESH_WAIT + bucket, value)
            for (queue, region), times in self._waits.items()
            for bucket, value in times.counts()
        ]
        self._runtimes, self._waits = {}, {}
        return found

    def _name(self, task: str) -> str:
        if task in self._tasks:
            return task
        if len(self._tasks) >= MOST_TASKS:
            return OTHER
        self._tasks.add(task)
        return task


class LimitNames:
    """Names as the app declares them: those of a family are counted together, under its pattern.

    Of the names that no limit of the app covers the first have a count of their own, and all others
    share one, so that what a store keeps has a bound.
    """

    def __init__(self, declared: Collection[str] = ()) -> None:
        self._declared = declared
        self._others: set[str] = set()

    def counts(self, limits: str) -> list[str]:
        """The counts of a start of a job with these limits, as they are stored."""
        return [LIMIT_STARTED + self._counted(name) for name, _ in costs_of(limits)]

    def _counted(self, name: str) -> str:
        by = covering(name, self._declared)
        if by is not None:
            return by
        if name not in self._others and len(self._others) >= MOST_COUNTED_LIMITS:
            return OTHER
        self._others.add(name)
        return name
