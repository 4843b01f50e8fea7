"""Which workers sleep, what each waits for, and who is woken.

One sleeper is woken for a job. If it does not come for it, because it left or filled its slots
with other work, the next one is: a worker that stops waiting passes on what stands in its lanes.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable

from mulligan.core.lane import Lane
from mulligan.core.plan import ClaimPlan, Source

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Sleeper:
    """A worker that got less than it asked for, its plan, and when it wakes by itself.

    It is `woken` once; `noticed` says that this has ended a wait already.
    """

    __slots__ = ("noticed", "plan", "sources", "until", "woken", "worker")

    def __init__(self, worker: str, plan: ClaimPlan, until: float) -> None:
        self.worker = worker
        self.plan = plan
        self.sources = plan.by_lane
        self.until = until
        self.woken = False
        self.noticed = False


class Sleepers:
    """The sleeping workers. A wake-up that comes before the wait is kept for it."""

    def __init__(self, lock: threading.RLock, is_live: Callable[[str], bool]) -> None:
        self._lock = lock
        self._is_live = is_live
        self._sleepers: dict[str, Sleeper] = {}
        self._waiters: dict[str, Waiter] = {}

    def __contains__(self, worker: str) -> bool:
        return worker in self._sleepers

    @property
    def someone_sleeps(self) -> bool:
        """Whether there is anyone to be woken."""
        return False in [sleeper.woken for sleeper in self._sleepers.values()]

    def add(self, worker: str, plan: ClaimPlan, until: float) -> None:
        """Remember the worker as waiting for what its plan takes from."""
        self._sleepers[worker] = Sleeper(worker, plan, until)

    def remove(self, worker: str) -> Iterable[Lane]:
        """Forget a worker that waits no longer, and say which lanes it waited for."""
        sleeper = self._sleepers.pop(worker, None)
        return () if sleeper is None else sleeper.plan.lanes

    def dead(self) -> list[str]:
        """The sleepers that have stopped beating."""
        return [worker for worker in self._sleepers if not self._is_live(worker)]

    def wake_for_job(self, lane: Lane, due: float) -> None:
        """Wake one sleeper for a job in this lane, unless one will wake by itself in time.

        It is one of those that may take the job soonest: at once rather than after a grace.
        """
        if not self._sleepers:
            return
        able = [
            sleeper
            for sleeper in self._sleepers.values()
            if lane in sleeper.sources and not sleeper.woken and self._is_live(sleeper.worker)
        ]
        if able:
            wait, yields = min(
                (sleeper.sources[lane].waited, sleeper.sources[lane].yields) for sleeper in able
            )
            first = [sleeper for sleeper in able if sleeper.sources[lane].waited == wait]
            waits = 0.0 if yields and not self._any_sooner(lane, wait) else wait
            if all(sleeper.until > due + waits for sleeper in first):
                self._wake(first[0])

    def wake_for_limit(self, key: str) -> None:
        """Wake one sleeper whose plan has a limit of this key, now that a permit was freed."""
        for sleeper in self._sleepers.values():
            is_limited = key in sleeper.plan.limit_keys
            if is_limited and not sleeper.woken and self._is_live(sleeper.worker):
                self._wake(sleeper)
                return

    def wake_all(self) -> None:
        """Wake every sleeper: the facts have changed."""
        for sleeper in self._sleepers.values():
            self._wake(sleeper)

    def any_sooner(self, source: Source, claimer: str) -> bool:
        """Whether a worker other than the claimer sleeps that may take from the lane sooner."""
        return self._any_sooner(source.lane, source.waited, claimer)

    def _any_sooner(self, lane: Lane, waited: float, but: str = "") -> bool:
        return any(
            lane in sleeper.sources
            and sleeper.sources[lane].waited < waited
            and sleeper.worker != but
            and self._is_live(sleeper.worker)
            for sleeper in self._sleepers.values()
        )

    async def wait(self, worker: str, seconds: float) -> None:
        """Sleep until the worker is woken, or the time is up."""
        loop = asyncio.get_running_loop()
        with self._lock:
            sleeper = self._sleepers.get(worker)
            if sleeper is not None and sleeper.woken and not sleeper.noticed:
                sleeper.noticed = True
                return
            end = loop.create_future()
            self._waiters[worker] = (loop, end)
        timer = loop.call_later(seconds, end_wait, end)
        try:
            await end
        finally:
            timer.cancel()
            with self._lock:
                self._waiters.pop(worker, None)

    def _wake(self, sleeper: Sleeper) -> None:
        sleeper.woken = True
        waiter = self._waiters.get(sleeper.worker)
        if waiter is not None:
            loop, end = waiter
            sleeper.noticed = True
            loop.call_soon_threadsafe(end_wait, end)


def end_wait(end: "asyncio.Future[None]") -> None:
    """End a wait, once."""
    if not end.done():
        end.set_result(None)
