"""What a worker knows of breakers before its store does: how its own attempts went."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mulligan.core.counts import FAILED, SUCCEEDED, Count
from mulligan.core.decide import is_probe
from mulligan.core.durations import rounded
from mulligan.core.facts import Facts
from mulligan.core.health import Breaker, Health, Probe, judge
from mulligan.core.job import Claim, Lease

# The least that two times of a store differ by.
A_MOMENT = 1e-6


class Ending(NamedTuple):
    """What the end of an attempt counts as; `probe` says how a probe went, if it was one."""

    queue: str
    region: str
    names: tuple[str, ...] = ()
    probe: Probe | None = None


class Breakers:
    """The facts that the store told, with the breakers of this region as its own counts leave them.

    The rule of `judge` is applied at the end of each attempt. What follows from it holds for this
    worker at once, and until a report of what it was counted from has been answered. `shut` are
    the queues in which this region makes probes alone.
    """

    def __init__(self, region: str = "", monotonic: Callable[[], float] = time.monotonic) -> None:
        self._region = region
        self._monotonic = monotonic
        self._told = Facts()
        self._told_at = monotonic()
        self._own: dict[str, Breaker] = {}
        self._untold: Counter[tuple[str, str]] = Counter()
        self._probing: dict[str, Lease] = {}
        self.shut: frozenset[str] = frozenset()
        self._last_claim = 0.0
        self._left = asyncio.Event()
        self.facts = self._told

    @property
    def now(self) -> float:
        """The store's time, as far as it is known: never ahead of it."""
        return rounded(self._told.now + self._monotonic() - self._told_at)

    @property
    def unsettled(self) -> bool:
        """Whether the store has yet to say what it makes of what is known here."""
        return bool(self._own)

    @property
    def resting(self) -> frozenset[str]:
        """The queues in which this region is open and has no probe to make now."""
        if not self.shut:
            return self.shut
        now = self.now
        return frozenset(q for q in self.shut if q in self._probing or self._next(q) > now)

    def next_probe_in(self, resting: frozenset[str]) -> float | None:
        """Seconds until one of these queues has a probe to make; None if one that runs decides."""
        idle = [q for q in resting if q not in self._probing]
        return max(0.0, min(map(self._next, idle)) - self.now) if idle else None

    async def probed(self) -> None:
        """Wait until no probe of this worker runs any more."""
        while self._probing:
            self._left.clear()
            await self._left.wait()

    def hear(self, facts: Facts) -> None:
        """The store told these facts."""
        self._told, self._told_at = facts, self._monotonic()
        self._merge()

    def forbids(self, claim: Claim) -> bool:
        """Whether the attempt must not start: it was claimed before the breaker opened."""
        return claim.queue in self.shut and not is_probe(claim, self.facts)

    @property
    def probing(self) -> bool:
        """Whether a probe of this worker runs."""
        return bool(self._probing)

    def claimed(self, claims: Sequence[Claim]) -> None:
        """These are held here, and soon run."""
        for claim in claims:
            self._last_claim = max(self._last_claim, claim.started_at)
            if claim.queue in self.shut:
                self._probing[claim.queue] = claim.lease

    def left(self, claim: Claim) -> None:
        """It is held no more, however it ended."""
        if self._probing and self._probing.get(claim.queue) == claim.lease:
            del self._probing[claim.queue]
            self._left.set()

    def ended(self, ending: Ending) -> None:
        """An attempt came to this, which the store has yet to be told."""
        queue, region, names, probe = ending
        if region != self._region:
            return
        for name in names:
            if name in (SUCCEEDED, FAILED):
                self._untold[queue, name] += 1
        if probe is not None:
            if queue in self.shut:
                self._turn(queue, self._after(self._breaker(queue), probe))
        elif FAILED in names and not self._breaker(queue).open:
            self._judge(queue)

    def forget(self, ending: Ending, times: int = 1) -> None:
        """So many such endings will never be told."""
        self._take_off(Count(*ending[:2], name, times) for name in ending.names)

    def telling(self, counts: Sequence[Count]) -> None:
        """These are on their way to the store."""
        self._take_off(counts)

    def settle(self, health: Mapping[tuple[str, str], Health], facts: Facts | None) -> None:
        """The store has answered a report: what was judged here from what it was told is over."""
        open_ended = {queue for queue, name in self._untold if self._untold[queue, name]}
        self._own = {q: breaker for q, breaker in self._own.items() if q in open_ended}
        if facts is not None:
            self.hear(facts)
        else:
            self._told = replace(self._told, health={**self._told.health, **health})
            self._merge()

    def _after(self, breaker: Breaker, probe: Probe) -> Breaker:
        """The breaker after a probe; that it closes is for the store to say, to all at once."""
        after = judge(Health(breaker=breaker), [probe])
        return after if after.open else replace(breaker, probed_at=probe.started_at)

    def _judge(self, queue: str) -> None:
        known = self.facts.health_of(queue, self._region)
        health = replace(
            known,
            succeeded=known.succeeded + self._untold[queue, SUCCEEDED],
            failed=known.failed + self._untold[queue, FAILED],
        )
        if judge(health).open:
            # Whatever was claimed so far is no probe.
            since = max(self.now, rounded(self._last_claim + A_MOMENT))
            self._turn(queue, Breaker(open=True, since=since))

    def _turn(self, queue: str, breaker: Breaker) -> None:
        self._own[queue] = breaker
        self._merge()

    def _merge(self) -> None:
        facts, region = self._told, self._region
        for queue, breaker in self._own.items():
            facts = facts.with_breaker(queue, region, breaker)
        self.facts = facts
        self.shut = frozenset(q for q, r in facts.health if r == region and facts.is_open(q, r))

    def _breaker(self, queue: str) -> Breaker:
        return self.facts.health_of(queue, self._region).breaker

    def _next(self, queue: str) -> float:
        return self._breaker(queue).next_probe_at

    def _take_off(self, counts: Iterable[Count]) -> None:
        for queue, region, name, value in counts:
            if region == self._region and name in (SUCCEEDED, FAILED):
                self._untold[queue, name] = max(0, self._untold[queue, name] - int(value))
