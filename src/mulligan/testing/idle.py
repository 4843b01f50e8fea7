"""Passes the time of a test in which nothing happens: nobody wakes every second for nothing.

While no worker has work, and no job is due, the clock jumps to shortly before the next event: a job
falls due or expires, a schedule ticks, or a timer ends that is not one of the workers' own. The
timers of workers that would have ended in between are put off by as much.
"""

import heapq
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Any

from mulligan.core.at_once import at_once
from mulligan.core.schedule import read_schedules
from mulligan.engine.current import RUNNING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from mulligan.engine.worker import Engine
    from mulligan.stores.memory import MemoryStore
    from mulligan.testing.virtual import VirtualLoop

# Whether code belongs to a worker, and not to the test or to its resources.
OF_WORKER: ContextVar[bool] = ContextVar("mulligan_of_worker", default=False)
# For how long the workers run before the event: each of their loops looks around meanwhile.
RUN_UP = 200.0
# How often to look whether there is nothing to do.
LOOK_EVERY = 1.0


class Jumps:
    """Moves the clock of a loop while its workers are idle."""

    def __init__(
        self, loop: "VirtualLoop", store: "MemoryStore", engines: "Callable[[], Sequence[Engine]]"
    ) -> None:
        self._loop = loop
        self._store = store
        self._engines = engines
        self._looked = -inf

    def jump(self) -> None:
        """Move the clock ahead if nothing happens for a while; the loop is about to wait."""
        now = self._loop.time()
        if now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        engines = self._engines()
        if any(each.slots.is_busy or not each.events.are_told for each in engines):
            return
        timers: list[asyncio.TimerHandle] = self._loop._scheduled  # type: ignore[attr-defined] # noqa: SLF001
        others = (each.when() for each in timers if not each.cancelled() and not is_own(each))
        target = min(self._next_event(now), min(others, default=inf)) - RUN_UP
        if not now + RUN_UP < target < inf:
            return
        for each in timers:
            if each.when() < target:
                each._when += target - now  # type: ignore[attr-defined] # noqa: SLF001
        heapq.heapify(timers)
        self._loop.move_to(target)
        for engine in engines:  # their leases would be over
            at_once(self._store.beat(engine.worker, ()))

    def _next_event(self, now: float) -> float:
        """When the next pending job falls due or expires, by the loop's time; now if it has."""
        first = inf
        state = self._store.state
        ahead = now - state.clock()  # of the store's time
        for job in state.jobs.values():
            if job.status == "processing":
                return now
            if job.status == "pending" and not job.awaits:
                at = job.due if job.expires_at is None else min(job.due, job.expires_at)
                first = min(first, at + ahead)
                if first <= now:
                    return now
        for schedule, _ in read_schedules(state.schedules).values():
            at = schedule.next_tick(now - ahead) or inf
            first = min(first, at + ahead)
        return first


def is_own(timer: Any) -> bool:
    """Return whether a timer is a worker's own, and not that of a task it runs."""
    context = timer._context  # noqa: SLF001 - there is no public way
    return context.get(OF_WORKER, False) and context.get(RUNNING) is None
