"""A scenario: which jobs arrive when, which workers there are, and what fails."""

from collections.abc import Iterator, Sequence
from heapq import merge
from math import log
from random import Random
from typing import Literal, NamedTuple

from msgspec import Struct

from mulligan.core.facts import QueueSettings
from mulligan.core.lane import Priority
from mulligan.core.limits import Limit
from mulligan.core.retry import Retry
from mulligan.sim.provider import Provider

JOBS_LIMIT = 2_000_000
EVERY: frozenset[int] = frozenset({0})  # stands for every attempt; attempts are numbered from 1


class Duration(Struct, frozen=True):
    """How long attempts take: a constant, or drawn once per job from a distribution."""

    kind: str = "constant"
    mean: float = 1.0
    sigma: float = 0.5
    low: float = 0.0
    high: float = 0.0

    def draw(self, chance: Random) -> float:
        """A duration in seconds, rounded to the millisecond."""
        match self.kind:
            case "exponential":
                drawn = chance.expovariate(1 / self.mean)
            case "lognormal":
                drawn = chance.lognormvariate(log(self.mean) - self.sigma**2 / 2, self.sigma)
            case "uniform":
                drawn = chance.uniform(self.low, self.high)
            case _:
                return self.mean
        return round(drawn, 3)


class Region(Struct, frozen=True):
    """A region. `slowdown` stretches every attempt; attempts that start in an outage fail.

    An attempt that fails by chance or in an outage takes `fail_after` seconds, or else as long as a
    success would.
    """

    name: str
    workers: int = 1
    concurrency: int = 1
    failure_rate: float = 0.0
    slowdown: float = 1.0
    outage: tuple[tuple[float, float], ...] = ()
    fail_after: float | None = None
    error: str | None = None

    def down(self, at: float) -> bool:
        """Whether the region has an outage at this time."""
        return any(begin <= at < end for begin, end in self.outage)


class Needs(Struct, frozen=True):
    """The limits that jobs name, as stores keep them, their fairness key, and whom they call.

    In the key `{id}` stands for the id of each job.
    """

    limits: str | None = None
    fairness_key: str | None = None
    provider: str | None = None

    def of(self, id_: str) -> "Needs":
        """What the job of this id needs."""
        if self.fairness_key is None or "{id}" not in self.fairness_key:
            return self
        return Needs(self.limits, self.fairness_key.replace("{id}", id_), self.provider)


class Jobs(Struct, frozen=True):
    """`count` equal jobs, enqueued together; `fail` and `crash` are numbers of attempts.

    `error` is the class that those which fail raise.
    """

    id: str
    region: str
    at: float
    duration: Duration
    retry: Retry
    count: int = 1
    priority: int = Priority.NORMAL
    fail: frozenset[int] = frozenset()
    crash: frozenset[int] = frozenset()
    error: str | None = None
    needs: Needs = Needs()


class Stream(Struct, frozen=True):
    """Jobs that arrive at random, `rate` a second; a share of them fails its first attempt."""

    id: str
    region: str
    rate: float
    begin: float
    until: float
    duration: Duration
    retry: Retry
    priority: int = Priority.NORMAL
    fail_first: float = 0.0
    error: str | None = None
    needs: Needs = Needs()


class Past(NamedTuple):
    """A traced attempt to repeat: how long it took, and the pause that followed."""

    duration: float
    ending: Literal["done", "retried", "dead"]
    delay: float | None = None


class Planned(NamedTuple):
    """One job to enqueue; for a job of a trace, `course` says how its attempts went."""

    at: float
    id: str
    region: str
    duration: float
    retry: Retry
    priority: int
    fail: frozenset[int]
    crash: frozenset[int]
    course: tuple[Past, ...] = ()
    error: str | None = None
    needs: Needs = Needs()


class Scenario(Struct, frozen=True):
    """A scenario. The simulation ends when every job has ended, or at `until`.

    Without `breaker` failures do not count against regions, and no breaker opens. `planned` are
    the jobs of a trace, in order of time. Without `limited` jobs name no limits, and without `fair`
    they have no fairness keys.
    """

    name: str
    regions: tuple[Region, ...]
    jobs: tuple[Jobs, ...] = ()
    streams: tuple[Stream, ...] = ()
    planned: tuple[Planned, ...] = ()
    queue: QueueSettings = QueueSettings()
    seed: int = 0
    until: float = 86_400.0
    hold_through_backoff: bool = False
    title: str = ""
    breaker: bool = True
    limits: tuple[tuple[str, Limit], ...] = ()
    providers: tuple[Provider, ...] = ()
    limited: bool = True
    fair: bool = True


FIRST = frozenset({1})
NONE: frozenset[int] = frozenset()


def arrivals(scenario: Scenario) -> list[Planned]:
    """Every job of the scenario in order of time; at one time, in the order of the file."""
    return list(arriving(scenario))


def arriving(scenario: Scenario) -> Iterator[Planned]:
    """The same one by one, so that they need not all be in memory.

    They depend on the seed alone, so that all policies get the same work.
    """
    parts: Sequence[Iterator[Planned]] = [
        *(alike(jobs, scenario.seed) for jobs in sorted(scenario.jobs, key=lambda jobs: jobs.at)),
        *(streamed(stream, scenario.seed) for stream in scenario.streams),
        iter(scenario.planned),
    ]
    return merge(*parts, key=lambda job: job.at)


def alike(jobs: Jobs, seed: int) -> Iterator[Planned]:
    """The jobs of one entry."""
    chance = Random(f"{seed}/{jobs.id}")
    for number in range(1, jobs.count + 1):
        id_ = jobs.id if jobs.count == 1 else f"{jobs.id}-{number}"
        duration = jobs.duration.draw(chance)
        yield Planned(
            jobs.at, id_, jobs.region, duration, jobs.retry, jobs.priority, jobs.fail, jobs.crash,
            error=jobs.error, needs=jobs.needs.of(id_),
        )  # fmt: skip


def streamed(stream: Stream, seed: int) -> Iterator[Planned]:
    """The jobs of one stream."""
    chance = Random(f"{seed}/{stream.id}")
    at = stream.begin
    number = 0
    while (at := at + chance.expovariate(stream.rate)) < stream.until:
        number += 1
        duration = stream.duration.draw(chance)
        fail = FIRST if chance.random() < stream.fail_first else NONE
        id_ = f"{stream.id}-{number}"
        yield Planned(
            round(at, 6), id_, stream.region, duration, stream.retry,
            stream.priority, fail, NONE, error=stream.error, needs=stream.needs.of(id_),
        )  # fmt: skip
