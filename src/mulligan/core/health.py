"""The health of a region in a queue: a pure function of what is counted in the store."""

from collections.abc import Sequence

from msgspec import Struct

# What counts as recent, in seconds; counts are kept in slots of this length.
WINDOW = 60.0
SLOT = 5.0
# Fewer recent attempts than this say nothing about a region.
LEAST_ATTEMPTS = 20
TOLERATED_FAILURE_RATE = 0.5
PROBES_TO_CLOSE = 3


class Breaker(Struct, frozen=True):
    """Whether the region is tried with one probe at a time, and how many went well in a row.

    `since` is when `open` last changed, in the store's time.
    """

    open: bool = False
    since: float = 0.0
    probes: int = 0


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


def judge(health: Health, probes: Sequence[bool] = (), *, enforced: bool = True) -> Breaker:
    """The breaker after these probes, oldest first; `since` is for the store to say.

    A closed one opens when more than half of the recent attempts failed. An open one closes after
    three successful probes in a row. Where it is not enforced, because every region is open and
    all serve, three lucky ones among many failures do not close it.
    """
    breaker = health.breaker
    failing = 1 - health.success_rate > TOLERATED_FAILURE_RATE
    if not breaker.open:
        return Breaker(open=True, since=breaker.since) if failing else breaker
    if failing and not enforced:
        return Breaker(open=True, since=breaker.since)
    good = breaker.probes
    for succeeded in probes:
        good = good + 1 if succeeded else 0
        if good >= PROBES_TO_CLOSE:
            return Breaker(open=False, since=breaker.since)
    return Breaker(open=True, since=breaker.since, probes=good)


def first_slot(now: float, breaker: Breaker) -> float:
    """The start of the earliest slot that says something about how the region is now."""
    return max(now - WINDOW, breaker.since)
