"""What is counted by queue and region, and the breakers that follow from it."""

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from mulligan.core.counts import Count, Counts
from mulligan.core.health import CLOSED, SLOT, WINDOW, Breaker, Health, first_slot

Key = tuple[str, str, str]
Place = tuple[str, str]
Sums = dict[str, float]


def no_sums() -> Sums:
    """Nothing counted yet."""
    return defaultdict(float)


class Counted:
    """Sums since ever, and in slots of a few seconds for what is recent."""

    def __init__(self) -> None:
        self._ever: dict[Key, float] = defaultdict(float)
        self._slots: dict[float, dict[Place, Sums]] = {}
        self._breakers: dict[Place, Breaker] = {}

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
        """Let go of slots that nobody will ask for again."""
        for start in [start for start in self._slots if start < now - WINDOW]:
            del self._slots[start]

    def counts(self, now: float) -> Counts:
        """All of it."""
        recent: dict[Key, float] = defaultdict(float)
        for slot in self._since(now - WINDOW):
            for (queue, region), sums in slot.items():
                for name, value in sums.items():
                    recent[queue, region, name] += value
        return Counts(dict(self._ever), dict(recent))

    def health(self, queue: str, region: str, now: float) -> Health:
        """How attempts went lately."""
        place = queue, region
        breaker = self._breakers.get(place, CLOSED)
        succeeded = failed = 0.0
        for slot in self._since(first_slot(now, breaker)):
            sums = slot.get(place)
            if sums is not None:
                succeeded += sums.get("succeeded", 0.0)
                failed += sums.get("failed", 0.0)
        return Health(int(succeeded), int(failed), breaker)

    def places(self, now: float) -> set[Place]:
        """Every queue and region of which something is known."""
        return set(self._breakers).union(*self._since(now - WINDOW))

    def switch(self, place: Place, before: Breaker, after: Breaker, now: float) -> bool:
        """Replace a breaker; False if it was no longer `before`."""
        if self._breakers.get(place, CLOSED) != before:
            return False
        turned = before.open != after.open
        self._breakers[place] = replace(after, since=now if turned else before.since)
        return True

    def _since(self, first: float) -> list[dict[Place, Sums]]:
        return [slot for start, slot in self._slots.items() if start >= first]
