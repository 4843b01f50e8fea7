"""The health of a region in a queue: a pure function of the counts in the store."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

# What counts as recent, in seconds; counts are kept in slots of this length.
WINDOW = 60.0
SLOT = 5.0
# With fewer recent attempts a region counts as healthy.
LEAST_ATTEMPTS = 20
TOLERATED_FAILURE_RATE = 0.5
PROBES_TO_CLOSE = 3
# Seconds from one probe to the next: twice as many after each that fails.
SHORTEST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
# How many failed probes of a job use none of its retries.
FREE_PROBES = 3
# Exceptions about data do not count against the region.
ABOUT_DATA = (ValueError, TypeError, LookupError, AttributeError, AssertionError)
# Their names, for workers in other languages.
DATA_ERRORS = frozenset({each.__name__ for each in (*ABOUT_DATA, KeyError, IndexError)})


class Breaker(Struct, frozen=True):
    """Whether the region gets one probe at a time only, and how the last probes went.

    `since` is when `open` last changed and `probed_at` when the last probe started, in the store's
    time. `probes` is how many in a row went well, or below zero how many in a row failed.
    """

    open: bool = False
    since: float = 0.0
    probes: int = 0
    probed_at: float = 0.0

    @property
    def succeeded(self) -> int:
        """How many probes in a row went well."""
        return max(0, self.probes)

    @property
    def failed(self) -> int:
        """How many probes in a row failed."""
        return max(0, -self.probes)

    @property
    def pause(self) -> float:
        """Seconds from the start of one probe to that of the next."""
        # The longest pause is reached long before this power of two.
        doublings = min(max(0, self.failed - 1), 10)
        return min(SHORTEST_PAUSE * (1 << doublings), LONGEST_PAUSE)

    @property
    def next_probe_at(self) -> float:
        """When the next probe may start; the first one waits for a pause too."""
        return max(self.since, self.probed_at) + self.pause


CLOSED = Breaker()


class Health(Struct, frozen=True):
    """Attempts of the last minute, counted since the breaker last opened or closed."""

    succeeded: int = 0
    failed: int = 0
    breaker: Breaker = CLOSED

    @property
    def success_rate(self) -> float:
        """The share that succeeded; 1 if there were too few attempts."""
        attempts = self.succeeded + self.failed
        return 1.0 if attempts < LEAST_ATTEMPTS else self.succeeded / attempts


UNKNOWN = Health()


class Probe(NamedTuple):
    """An attempt that started while the breaker was open: whether it succeeded, and its start."""

    succeeded: bool
    started_at: float


def judge(health: Health, probes: Sequence[Probe] = (), *, enforced: bool = True) -> Breaker:
    """The breaker after these probes, oldest first; the store sets `since`.

    A closed one opens when more than half of the recent attempts failed. An open one closes after
    three successful probes in a row. Where it is not enforced, because the breakers of all regions
    are open, three successes among many failures do not close it, and failures lengthen no pause.
    """
    breaker = health.breaker
    failing = 1 - health.success_rate > TOLERATED_FAILURE_RATE
    if not breaker.open:
        return Breaker(open=True, since=breaker.since) if failing else breaker
    if failing and not enforced:
        return Breaker(open=True, since=breaker.since)
    row, probed_at = breaker.probes, breaker.probed_at
    for succeeded, started_at in probes:
        row = max(0, row) + 1 if succeeded else min(0, row) - 1 if enforced else 0
        probed_at = max(probed_at, started_at) if enforced else probed_at
        if row >= PROBES_TO_CLOSE:
            return Breaker(open=False, since=breaker.since)
    return Breaker(open=True, since=breaker.since, probes=row, probed_at=probed_at)


def changes_plans(before: Breaker, after: Breaker) -> bool:
    """Whether the change makes older plans stale: it opened, closed, or has another pause."""
    return before.open != after.open or before.pause != after.pause


def first_slot(now: float, breaker: Breaker) -> float:
    """The start of the earliest slot that counts for the breaker now."""
    return max(now - WINDOW, breaker.since)
