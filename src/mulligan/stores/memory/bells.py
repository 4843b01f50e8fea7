"""Bells: who sleeps waiting for what, and how they are woken.

One sleeper is rung for a job. If it does not come for it, because it left or filled its slots
with other work, the next one is: whoever stops waiting passes on what stands in its lanes.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable

from mulligan.core.lane import Lane
from mulligan.core.plan import ClaimPlan

Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Sleeper:
    """A worker that waits: for which lanes and gates, and until when it sleeps by itself."""

    __slots__ = ("gates", "heard", "lanes", "rung", "until", "worker")

    def __init__(self, worker: str, plan: ClaimPlan, until: float) -> None:
        self.worker = worker
        self.until = until
        self.rung = False
        self.heard = False
        self.lanes = {s.lane: s.waited for g in plan.groups for tier in g.tiers for s in tier}
        self.gates = {
            gate.key for g in plan.groups for tier in g.tiers for s in tier for gate in s.gates
        }


class Bells:
    """One bell per worker. A ring that comes before its wait is kept for it."""

    def __init__(self, lock: threading.RLock, live: Callable[[str], bool]) -> None:
        self._lock = lock
        self._live = live
        self._sleepers: dict[str, Sleeper] = {}
        self._waiters: dict[str, Waiter] = {}

    def expect(self, worker: str, plan: ClaimPlan, until: float) -> None:
        """The worker got less than it asked for, and wants to know of more."""
        self._sleepers[worker] = Sleeper(worker, plan, until)

    def forget(self, worker: str) -> Iterable[Lane]:
        """The worker waits no longer; the lanes that it waited for."""
        sleeper = self._sleepers.pop(worker, None)
        return () if sleeper is None else sleeper.lanes

    def dead(self) -> list[str]:
        """Those who waited and have stopped beating."""
        return [worker for worker in self._sleepers if not self._live(worker)]

    def ring_for(self, lane: Lane, due: float) -> None:
        """Wake one sleeper for a job in this lane, due then, unless one will wake in time.

        It is one of those that may take the job soonest: at once rather than after a grace.
        """
        able = [
            sleeper
            for sleeper in self._sleepers.values()
            if lane in sleeper.lanes and not sleeper.rung and self._live(sleeper.worker)
        ]
        if able:
            soonest = min(sleeper.lanes[lane] for sleeper in able)
            first = [sleeper for sleeper in able if sleeper.lanes[lane] == soonest]
            if all(sleeper.until > due + soonest for sleeper in first):
                self._ring(first[0])

    def ring_gate(self, key: str) -> None:
        """Wake one sleeper that a permit of this key may help."""
        for sleeper in self._sleepers.values():
            if key in sleeper.gates and not sleeper.rung and self._live(sleeper.worker):
                self._ring(sleeper)
                return

    def ring_all(self) -> None:
        """Wake every sleeper: the facts have changed."""
        for sleeper in self._sleepers.values():
            self._ring(sleeper)

    async def wait(self, worker: str, seconds: float) -> None:
        """Sleep until the worker's bell rings, or the time is up."""
        event = asyncio.Event()
        with self._lock:
            sleeper = self._sleepers.get(worker)
            if sleeper is not None and sleeper.rung and not sleeper.heard:
                sleeper.heard = True
                return
            self._waiters[worker] = (asyncio.get_running_loop(), event)
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._waiters.pop(worker, None)

    def _ring(self, sleeper: Sleeper) -> None:
        sleeper.rung = True
        waiter = self._waiters.get(sleeper.worker)
        if waiter is not None:
            loop, event = waiter
            sleeper.heard = True
            loop.call_soon_threadsafe(event.set)
