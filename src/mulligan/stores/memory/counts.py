"""What is counted by queue and region, and the breakers that follow from it."""

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from mulligan.core.counts import Count, Counts
from mulligan.core.health import CLOSED, SLOT, WINDOW, Breaker, Health, first_slot

CountKey = tuple[str, str, str]
QueueRegion = tuple[str, str]
Sums = dict[str, float]


def no_sums() -> Sums:
    """Nothing counted yet."""
    return defaultdict(float)


class Counters:
    """Sums since the store was made, and in slots of a few seconds for what is recent."""

    def __init__(self) -> None:
        self._ever: dict[CountKey, float] = defaultdict(float)
        self._slots: dict[float, dict[QueueRegion, Sums]] = {}
        self._breakers: dict[QueueRegion, Breaker] = {}

    def add(self, counts: Iterable[Count], now: float) -> None:
        """Add each to its sums."""
        start = now // SLOT * SLOT
        slot = self._slots.get(start)
        if slot is None:
            self.forget(now)
            slot = self._slots[start] = defaultdict(no_sums)
        for queue, region, name, value in counts:
            self._ever[queue, region, name] += value
            slot[queue, region][name] += value

    def forget(self, now: float) -> None:
        """Delete the slots that are no longer recent."""
        for start in [start for start in self._slots if start < now - WINDOW]:
            del self._slots[start]

    def counts(self, now: float) -> Counts:
        """All that was counted."""
        recent: dict[CountKey, float] = defaultdict(float)
        for slot in self._since(now - WINDOW):
            for (queue, region), sums in slot.items():
                for name, value in sums.items():
                    recent[queue, region, name] += value
        return Counts(dict(self._ever), dict(recent))

    def health(self, queue_region: QueueRegion, now: float) -> Health:
        """How recent attempts went."""
        breaker = self._breakers.get(queue_region, CLOSED)
        succeeded = failed = 0.0
        for slot in self._since(first_slot(now, breaker)):
            sums = slot.get(queue_region)
            if sums is not None:
                succeeded += sums.get("succeeded", 0.0)
                failed += sums.get("failed", 0.0)
        return Health(int(succeeded), int(failed), breaker)

    def all_health(self, now: float) -> dict[QueueRegion, Health]:
        """The health of every queue and region with a breaker or recent counts."""
        known = set(self._breakers).union(*self._since(now - WINDOW))
        return {queue_region: self.health(queue_region, now) for queue_region in known}

    def switch(
        self, queue_region: QueueRegion, before: Breaker, after: Breaker, now: float
    ) -> bool:
        """Replace a breaker; False if it was no longer `before`."""
        if self._breakers.get(queue_region, CLOSED) != before:
            return False
        turned = before.open != after.open
        self._breakers[queue_region] = replace(after, since=now if turned else before.since)
        return True

    def _since(self, first: float) -> list[dict[QueueRegion, Sums]]:
        return [slot for start, slot in self._slots.items() if start >= first]
