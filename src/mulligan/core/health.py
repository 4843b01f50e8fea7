"""The health of a region in a queue: a pure function of what is counted in the store."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

# What counts as recent, in seconds; counts are kept in slots of this length.
WINDOW = 60.0
SLOT = 5.0
# Fewer recent attempts than this say nothing about a region.
LEAST_ATTEMPTS = 20
TOLERATED_FAILURE_RATE = 0.5
PROBES_TO_CLOSE = 3
# Seconds from one probe to the next: twice as many after each that fails.
SHORTEST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
# So many failed probes use none of a job's retries.
FREE_PROBES = 3
# What a task raises about its data says nothing about where it ran.
ABOUT_DATA = (ValueError, TypeError, LookupError, AttributeError, AssertionError)
# Their names, for what workers in other languages say.
DATA_ERRORS = frozenset({each.__name__ for each in (*ABOUT_DATA, KeyError, IndexError)})


class Breaker(Struct, frozen=True):
    """Whether the region is tried with one probe at a time, and how the last ones went.

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
        # Long before this power of two the longest is reached.
        doublings = min(max(0, self.failed - 1), 10)
        return min(SHORTEST_PAUSE * (1 << doublings), LONGEST_PAUSE)

    @property
    def next_probe_at(self) -> float:
        """Before this no probe starts: the first waits for one pause, as all others do."""
        return max(self.since, self.probed_at) + self.pause


CLOSED = Breaker()


class Health(Struct, frozen=True):
    """Attempts of the last minute, counted since the breaker last opened or closed."""

    succeeded: int = 0
    failed: int = 0
    breaker: Breaker = CLOSED

    @property
    def success_rate(self) -> float:
        """The share that succeeded; a region of which little is known counts as reliable."""
        attempts = self.succeeded + self.failed
        return 1.0 if attempts < LEAST_ATTEMPTS else self.succeeded / attempts


UNKNOWN = Health()


class Probe(NamedTuple):
    """How an attempt went that started while the breaker was open, and when it started."""

    succeeded: bool
    started_at: float


def judge(health: Health, probes: Sequence[Probe] = (), *, enforced: bool = True) -> Breaker:
    """The breaker after these probes, oldest first; `since` is for the store to say.

    A closed one opens when more than half of the recent attempts failed. An open one closes after
    three successful probes in a row. Where it is not enforced, because every region is open and
    all serve, three lucky ones among many failures do not close it, and failures lengthen no pause.
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
    """Whether plans made before must be made anew: where it opened, closed, or paces otherwise."""
    return before.open != after.open or before.pause != after.pause


def first_slot(now: float, breaker: Breaker) -> float:
    """The start of the earliest slot that says something about how the region is now."""
    return max(now - WINDOW, breaker.since)
