"""The breakers of a worker's region, kept up to date by its own attempts before the store is."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.checks import rounded
from mulligan.core.counts import FAILED, SUCCEEDED, Count
from mulligan.core.decide import is_probe
from mulligan.core.facts import Facts
from mulligan.core.health import Breaker, Health, Probe, judge
from mulligan.core.job import Claim, Lease

# The smallest difference between two times of a store.
RESOLUTION = 1e-6


class FactsCell:
    """Holds the `current` facts. `Breakers` alone writes them; any loop of the worker reads them.

    A loop that receives facts from the store hands them to `Breakers.update`.
    """

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current = Facts()


class Ending(Struct, frozen=True, gc=False):
    """What the end of an attempt counts as; `probe` says how a probe went, if it was one."""

    queue: str
    region: str
    names: tuple[str, ...] = ()
    probe: Probe | None = None


def nobody_asks() -> None:
    """Does nothing."""


class Breakers:
    """Merges the store's facts with the breakers that follow from this worker's own counts.

    `judge` is applied at the end of each attempt. Its verdict holds for this worker at once, until
    the store has answered a report of the counts behind it. `facts` is the cell with the merged
    facts. `probe_only` are the queues whose breaker is open in this region: it only probes there.
    """

    def __init__(self, region: str = "", monotonic: Callable[[], float] = time.monotonic) -> None:
        self._region = region
        self._monotonic = monotonic
        self._stored = Facts()
        self._stored_at = monotonic()
        self._own: dict[str, Breaker] = {}
        self._unreported: Counter[tuple[str, str]] = Counter()
        self._probes: dict[str, Lease] = {}
        self._last_claim = 0.0
        self._probe_ended = asyncio.Event()
        self.probe_only: frozenset[str] = frozenset()
        self.facts = FactsCell()
        # Called when the store's facts are of another epoch.
        self.on_epoch: Callable[[], None] = nobody_asks

    @property
    def now(self) -> float:
        """The store's time, estimated; never later than its real time."""
        return rounded(self._stored.now + self._monotonic() - self._stored_at)

    @property
    def unconfirmed(self) -> bool:
        """Whether a breaker was judged here and the store has not answered that report yet."""
        return bool(self._own)

    @property
    def probing(self) -> bool:
        """Whether a probe of this worker runs."""
        return bool(self._probes)

    @property
    def resting(self) -> frozenset[str]:
        """The queues whose breaker is open and that have no probe to make now."""
        if not self.probe_only:
            return self.probe_only
        now = self.now
        return frozenset(q for q in self.probe_only if q in self._probes or self._next(q) > now)

    def next_probe_in(self, resting: frozenset[str]) -> float | None:
        """Seconds until one of these queues has a probe to make; None if all wait for one to end.

        A queue whose probe runs makes no other before that has ended.
        """
        idle = [q for q in resting if q not in self._probes]
        return max(0.0, min(map(self._next, idle)) - self.now) if idle else None

    async def probed(self) -> None:
        """Wait until no probe of this worker runs."""
        while self._probes:
            self._probe_ended.clear()
            await self._probe_ended.wait()

    def update(self, facts: Facts) -> None:
        """Take in facts that the store has answered."""
        if facts.epoch != self._stored.epoch:
            self.on_epoch()
        self._stored, self._stored_at = facts, self._monotonic()
        self._merge()

    def forbids(self, claim: Claim) -> bool:
        """Whether the attempt must not start: it was claimed before the breaker opened."""
        return claim.queue in self.probe_only and not is_probe(claim, self.facts.current)

    def claimed(self, claims: Sequence[Claim]) -> None:
        """Note that these claims are held here; where a breaker is open they are probes."""
        last = max([claim.started_at for claim in claims], default=0.0)
        self._last_claim = max(self._last_claim, last)
        for claim in claims if self.probe_only else ():
            if claim.queue in self.probe_only:
                self._probes[claim.queue] = claim.lease

    def left(self, claim: Claim) -> None:
        """Note that the claim is no longer held, however it ended."""
        if self._probes and self._probes.get(claim.queue) == claim.lease:
            del self._probes[claim.queue]
            self._probe_ended.set()

    def ended(self, ending: Ending) -> None:
        """Count the end of an attempt before it is reported, and judge the breaker anew."""
        if ending.region != self._region:
            return
        queue, names, probe = ending.queue, ending.names, ending.probe
        for name in names:
            if name in (SUCCEEDED, FAILED):
                self._unreported[queue, name] += 1
        if probe is not None:
            if queue in self.probe_only:
                self._set_own(queue, self._after(self._breaker(queue), probe))
        elif FAILED in names and not self._breaker(queue).open:
            self._judge(queue)

    def forget(self, ending: Ending, times: int = 1) -> None:
        """Take off so many endings that will never be reported."""
        self._take_off(Count(ending.queue, ending.region, name, times) for name in ending.names)

    def reported(self, counts: Sequence[Count]) -> None:
        """Take off counts that are on their way to the store."""
        self._take_off(counts)

    def settle(self, health: Mapping[tuple[str, str], Health], facts: Facts | None) -> None:
        """Drop breakers judged here whose counts the store has answered; take in its answer."""
        unreported = {queue for queue, name in self._unreported if self._unreported[queue, name]}
        self._own = {q: breaker for q, breaker in self._own.items() if q in unreported}
        if facts is not None:
            self.update(facts)
        else:
            self._stored = replace(self._stored, health={**self._stored.health, **health})
            self._merge()

    def _after(self, breaker: Breaker, probe: Probe) -> Breaker:
        """The breaker after a probe. Only the store closes it, for all workers at once."""
        after = judge(Health(breaker=breaker), [probe])
        return after if after.open else replace(breaker, probed_at=probe.started_at)

    def _judge(self, queue: str) -> None:
        known = self.facts.current.health_of(queue, self._region)
        health = replace(
            known,
            succeeded=known.succeeded + self._unreported[queue, SUCCEEDED],
            failed=known.failed + self._unreported[queue, FAILED],
        )
        if judge(health).open:
            # Later than every claim so far: none of them is a probe.
            since = max(self.now, rounded(self._last_claim + RESOLUTION))
            self._set_own(queue, Breaker(open=True, since=since))

    def _set_own(self, queue: str, breaker: Breaker) -> None:
        self._own[queue] = breaker
        self._merge()

    def _merge(self) -> None:
        """Put what this worker judged into the store's facts, unless those know a later probe."""
        facts, region = self._stored, self._region
        for queue, breaker in self._own.items():
            stored = facts.health_of(queue, region).breaker
            if not (stored.open and stored.probed_at > breaker.probed_at):
                facts = facts.with_breaker(queue, region, breaker)
        self.facts.current = facts
        self.probe_only = frozenset(
            q for q, r in facts.health if r == region and facts.is_open(q, r)
        )

    def _breaker(self, queue: str) -> Breaker:
        return self.facts.current.health_of(queue, self._region).breaker

    def _next(self, queue: str) -> float:
        return self._breaker(queue).next_probe_at

    def _take_off(self, counts: Iterable[Count]) -> None:
        for queue, region, name, value in counts:
            if region == self._region and name in (SUCCEEDED, FAILED):
                self._unreported[queue, name] = max(0, self._unreported[queue, name] - int(value))
