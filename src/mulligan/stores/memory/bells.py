"""Bells: who sleeps waiting for what, and how they are woken.

One sleeper is rung for a job. If it does not come for it, because it left or filled its slots
with other work, the next one is: whoever stops waiting passes on what stands in its lanes.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable

from mulligan.core.lane import Lane
from mulligan.core.plan import ClaimPlan, Source

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Sleeper:
    """A worker that waits: for what its plan takes from, and until when it sleeps by itself."""

    __slots__ = ("heard", "plan", "rung", "sources", "until", "worker")

    def __init__(self, worker: str, plan: ClaimPlan, until: float) -> None:
        self.worker = worker
        self.plan = plan
        self.sources = plan.by_lane
        self.until = until
        self.rung = False
        self.heard = False


class Bells:
    """One bell per worker. A ring that comes before its wait is kept for it."""

    def __init__(self, lock: threading.RLock, live: Callable[[str], bool]) -> None:
        self._lock = lock
        self._live = live
        self._sleepers: dict[str, Sleeper] = {}
        self._waiters: dict[str, Waiter] = {}

    @property
    def someone_sleeps(self) -> bool:
        """Whether there is anyone to be woken."""
        return any(not sleeper.rung for sleeper in self._sleepers.values())

    def expect(self, worker: str, plan: ClaimPlan, until: float) -> None:
        """The worker got less than it asked for, and wants to know of more."""
        self._sleepers[worker] = Sleeper(worker, plan, until)

    def forget(self, worker: str) -> Iterable[Lane]:
        """The worker waits no longer; the lanes that it waited for."""
        sleeper = self._sleepers.pop(worker, None)
        return () if sleeper is None else sleeper.plan.lanes

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
            if lane in sleeper.sources and not sleeper.rung and self._live(sleeper.worker)
        ]
        if able:
            wait, yields = min(
                (sleeper.sources[lane].waited, sleeper.sources[lane].yields) for sleeper in able
            )
            first = [sleeper for sleeper in able if sleeper.sources[lane].waited == wait]
            waits = 0.0 if yields and not self._any_sooner(lane, wait) else wait
            if all(sleeper.until > due + waits for sleeper in first):
                self._ring(first[0])

    def sooner(self, source: Source, claimer: str) -> bool:
        """Whether someone else sleeps who may take from the lane sooner than this source."""
        return self._any_sooner(source.lane, source.waited, claimer)

    def _any_sooner(self, lane: Lane, waited: float, but: str = "") -> bool:
        return any(
            lane in sleeper.sources
            and sleeper.sources[lane].waited < waited
            and sleeper.worker != but
            and self._live(sleeper.worker)
            for sleeper in self._sleepers.values()
        )

    def ring_gate(self, key: str) -> None:
        """Wake one sleeper that a permit of this key may help."""
        for sleeper in self._sleepers.values():
            if key in sleeper.plan.limit_keys and not sleeper.rung and self._live(sleeper.worker):
                self._ring(sleeper)
                return

    def ring_all(self) -> None:
        """Wake every sleeper: the facts have changed."""
        for sleeper in self._sleepers.values():
            self._ring(sleeper)

    async def wait(self, worker: str, seconds: float) -> None:
        """Sleep until the worker's bell rings, or the time is up."""
        loop = asyncio.get_running_loop()
        with self._lock:
            sleeper = self._sleepers.get(worker)
            if sleeper is not None and sleeper.rung and not sleeper.heard:
                sleeper.heard = True
                return
            woken = loop.create_future()
            self._waiters[worker] = (loop, woken)
        timer = loop.call_later(seconds, wake, woken)
        try:
            await woken
        finally:
            timer.cancel()
            with self._lock:
                self._waiters.pop(worker, None)

    def _ring(self, sleeper: Sleeper) -> None:
        sleeper.rung = True
        waiter = self._waiters.get(sleeper.worker)
        if waiter is not None:
            loop, woken = waiter
            sleeper.heard = True
            loop.call_soon_threadsafe(wake, woken)


def wake(woken: "asyncio.Future[None]") -> None:
    """End a wait, once."""
    if not woken.done():
        woken.set_result(None)
