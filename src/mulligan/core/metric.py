"""What a metric is, and metrics that are made from counts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from mulligan.core.counts import BUCKETS, SUM, read_failure, read_runtime

Key = tuple[str, str, str]

Kind = Literal["counter", "gauge", "histogram"]


class Sums(Protocol):
    """What was counted, ever and in the last minute."""

    @property
    def ever(self) -> Mapping[Key, float]:
        """Since the store was made."""
        ...

    @property
    def recent(self) -> Mapping[Key, float]:
        """In the last minute."""
        ...


class Sample(NamedTuple):
    """One value, or for a histogram the count in each bucket and the sum."""

    labels: dict[str, str]
    value: float
    buckets: tuple[float, ...] = ()


class Metric(NamedTuple):
    """A metric, what it means, and its values."""

    name: str
    kind: Kind
    help: str
    samples: list[Sample]


def gauge(name: str, meaning: str, samples: Iterator[Sample]) -> Metric:
    """A metric that may go up and down."""
    return Metric(name, "gauge", meaning, list(samples))


def labels(queue: str, region: str, **more: str) -> dict[str, str]:
    """The labels that nearly every metric has."""
    return {"queue": queue, "region": region, **more}


def plain(name: str, key: str, meaning: str, sums: Sums) -> Metric:
    """A counter with one count name."""
    samples = [
        Sample(labels(q, r), v) for (q, r, each), v in sorted(sums.ever.items()) if each == key
    ]
    return Metric(name, "counter", meaning, samples)


def counted(name: str, meaning: str, sums: Sums, prefix: str, label: str) -> Metric:
    """A counter whose count names differ in one label."""
    samples = [
        Sample(labels(q, r, **{label: each.removeprefix(prefix)}), value)
        for (q, r, each), value in sorted(sums.ever.items())
        if each.startswith(prefix)
    ]
    return Metric(name, "counter", meaning, samples)


def outcomes(sums: Sums, names: Sequence[str], prefix: str = "") -> Iterator[Sample]:
    """Counters of outcomes."""
    for (queue, region, name), value in sorted(sums.ever.items()):
        if name in names:
            yield Sample(labels(queue, region, outcome=name.removeprefix(prefix)), value)


def histogram(name: str, meaning: str, sums: Sums, prefix: str) -> Metric:
    """Counts in buckets."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for (queue, region, each), value in sums.ever.items():
        if each.startswith(prefix):
            found[queue, region][each.removeprefix(prefix)] = value
    samples = [
        Sample(
            labels(queue, region),
            counts.get(SUM, 0.0),
            tuple(counts.get(bucket, 0.0) for bucket in BUCKETS),
        )
        for (queue, region), counts in sorted(found.items())
    ]
    return Metric(name, "histogram", meaning, samples)


def runtimes(sums: Sums) -> Iterator[Sample]:
    """Runtimes in buckets, by task and outcome."""
    found: dict[tuple[str, str, str, str], dict[str, float]] = defaultdict(dict)
    for (queue, region, each), value in sums.ever.items():
        if (name := read_runtime(each)) is not None:
            found[queue, region, name.task, name.outcome][name.bucket] = value
    for (queue, region, task, outcome), counts in sorted(found.items()):
        buckets = tuple(counts.get(bucket, 0.0) for bucket in BUCKETS)
        about = labels(queue, region, task=task, outcome=outcome)
        yield Sample(about, counts.get(SUM, 0.0), buckets)


def failures(sums: Sums) -> Iterator[Sample]:
    """Failed attempts, by task and type of failure."""
    for (queue, region, each), value in sorted(sums.ever.items()):
        if (name := read_failure(each)) is not None:
            yield Sample(labels(queue, region, task=name.task, type=name.type), value)
