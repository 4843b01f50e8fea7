"""The names under which workers count, by queue and region, and some of them by task too."""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from msgspec import Struct

from mulligan.core.checks import clean
from mulligan.core.decide import blames_region
from mulligan.core.facts import Facts
from mulligan.core.health import Probe
from mulligan.core.job import Claim
from mulligan.core.lane import ANYWHERE, Priority
from mulligan.core.outcome import Again, Dead, Done, Later, Lost, Outcome, Result
from mulligan.core.retry import read_trail

SUCCEEDED = "succeeded"
FAILED = "failed"
# Failed through the job itself: non-retryable, refused, or about its data. No fault of the region.
JOB_FAULT = "job-fault"
LOST = "lost"
RETRY_SUCCEEDED = "retry-succeeded"
RETRY_FAILED = "retry-failed"
ELSEWHERE = "retry-elsewhere"
RECLAIMED = "reclaimed"
STALE = "stale"
# A step that was recorded, and records that were refused as stale.
STEP = "step"
STALE_RECORD = "stale-record"
# A call of a transactional sink beyond the first in an attempt.
SINK_AGAIN = "sink-again"
DEAD = "dead"
# An event that no hook was told of, and a hook that raised.
EVENT_DROPPED = "event-dropped"
HOOK_FAILED = "hook-failed."
SAVED = "saved"
SAVED_SECONDS = "saved-seconds"
STARTED = "started."
# By the name of a limit, as it is declared.
LIMIT_STARTED = "limit-started."
RETRY_WAIT = "retry-wait."
RETRY_RETURN = "retry-return."
FRESH_WAIT = "fresh-wait."
SUM = "sum"
# By task: runtimes by outcome and bucket, and failures by type.
RUNTIME = "runtime."
FAILURE = "failure."
SNOOZED = "snoozed"
# The task, or type of failure, of all beyond the most that a process counts by name.
OTHER = "(other)"
# How many limits have a name of their own.
MOST_COUNTED_LIMITS = 200

# The counts of nearly every start and end, made once.
FRESH_START = ((f"{STARTED}fresh", 1.0),)
SUCCESS = (SUCCEEDED,)
RETRY_SUCCESS = (SUCCEEDED, RETRY_SUCCEEDED)

# Upper bounds of the buckets for waits and runtimes, in seconds.
BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, inf),
)
# The names of the buckets.
BUCKETS = tuple(f"{bound:g}" for bound in BOUNDS)


class Count(NamedTuple):
    """An amount to add to a count of a queue and region."""

    queue: str
    region: str
    name: str
    value: float


class Counts(Struct, frozen=True):
    """All counts by queue, region and name: since ever, and in the last minute."""

    ever: dict[tuple[str, str, str], float]
    recent: dict[tuple[str, str, str], float]


NO_COUNTS = Counts({}, {})


def bucket(seconds: float) -> str:
    """The name of the bucket that a wait falls into."""
    return BUCKETS[bisect_left(BOUNDS, seconds)]


class RuntimeName(NamedTuple):
    """What a count of runtimes is about; `bucket` is the bucket or SUM."""

    outcome: str
    bucket: str
    task: str

    @property
    def written(self) -> str:
        """As the name of a count."""
        return f"{RUNTIME}{self.outcome}.{self.bucket}/{self.task}"


class FailureName(NamedTuple):
    """What a count of failures is about."""

    type: str
    task: str

    @property
    def written(self) -> str:
        """As the name of a count; the type is what stands before the first slash."""
        return f"{FAILURE}{clean(self.type).replace('/', '_')}/{self.task}"


def read_runtime(name: str) -> RuntimeName | None:
    """The name of a count of runtimes, read; None if it is no such name."""
    if not name.startswith(RUNTIME):
        return None
    about, _, task = name.removeprefix(RUNTIME).partition("/")
    outcome, _, bucket = about.partition(".")
    return RuntimeName(outcome, bucket, task)


def read_failure(name: str) -> FailureName | None:
    """The name of a count of failures, read; None if it is no such name."""
    if not name.startswith(FAILURE):
        return None
    failure, _, task = name.removeprefix(FAILURE).partition("/")
    return FailureName(failure, task)


def at_start(claim: Claim) -> Sequence[tuple[str, float]]:
    """The counts of the start of an attempt."""
    if not claim.retry_count and claim.lane_priority == Priority.NORMAL:
        return FRESH_START
    counts = [(STARTED + claim.lane.label, 1.0)]
    if claim.retry_count:
        trail = read_trail(claim.trail)
        wait = max(0.0, claim.started_at - claim.due)
        counts += [
            (RETRY_WAIT + bucket(wait), 1.0),
            (RETRY_WAIT + SUM, wait),
            (RETRY_RETURN + bucket(trail.delay + wait), 1.0),
            (RETRY_RETURN + SUM, trail.delay + wait),
        ]
        if trail.regions and trail.regions[-1] != claim.worker_region:
            counts.append((ELSEWHERE, 1.0))
    return counts


def at_end(claim: Claim, result: Result, outcome: Outcome) -> tuple[str, ...]:
    """The counts of the end of an attempt, once it is written."""
    match outcome:
        case Done():
            return RETRY_SUCCESS if claim.retry_count else SUCCESS
        case Again() | Dead():
            somewhere = claim.worker_region != ANYWHERE
            names = [FAILED if somewhere and blames_region(result) else JOB_FAULT]
            names += [RETRY_FAILED] if claim.retry_count else []
            names += [LOST, RECLAIMED] if isinstance(result, Lost) else []
            names += [DEAD] if isinstance(outcome, Dead) else []
            names.append(FailureName(outcome.failure.type, claim.task).written)
            return tuple(names)
        case _:
            return ()


def outcome_word(claim: Claim, result: Result, outcome: Outcome) -> str | None:
    """The word for how an attempt ended; None if it did not run."""
    if isinstance(outcome, Done):
        return SUCCEEDED
    if isinstance(outcome, Later):
        return SNOOZED
    names = at_end(claim, result, outcome)
    return names[0] if names else None


def as_probe(claim: Claim, names: Sequence[str], facts: Facts) -> Probe | None:
    """The probe that the attempt was; None if it was none, or says nothing about its region.

    An attempt that started while its region's breaker was open is a probe. So it is where the
    breakers of all regions are open and all serve: its successes count towards closing one.
    """
    health = facts.health.get((claim.queue, claim.worker_region))
    if health is None or not health.breaker.open or claim.started_at < health.breaker.since:
        return None
    if SUCCEEDED not in names and FAILED not in names:
        return None
    return Probe(SUCCEEDED in names, claim.started_at)
