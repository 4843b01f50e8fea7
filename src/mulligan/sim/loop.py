"""The clock of a simulation: what happens at the same instant happens in a known order."""

import asyncio
import itertools
from collections.abc import Callable
from contextvars import Context, ContextVar
from heapq import heappop, heappush
from typing import Any

from mulligan.testing.virtual import StuckError, VirtualLoop

# The place of a worker in the scenario; whatever it starts inherits it. Arrivals go before all.
RANK: ContextVar[int] = ContextVar("mulligan_rank", default=-1)


class OrderedLoop(VirtualLoop):
    """A virtual loop that fires one timer at a time, and lets all that follows from it happen.

    Timers of one instant fire by the rank of who set them, and then in the order of setting.
    """

    def __init__(self) -> None:
        super().__init__()
        self._timers: list[tuple[float, int, int, asyncio.TimerHandle]] = []
        self._count = itertools.count()

    def call_at(  # type: ignore[override]  # its stub has a variadic type that gives nothing
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer; times are kept to the nanosecond so that sums of floats meet."""
        when = round(when, 9)
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, RANK.get(), next(self._count), timer))
        return timer

    async def quiet(self) -> None:
        """Wait until nothing is left to do at this instant but what is set to come later."""
        done = self.create_future()
        self.call_at(self.time(), done.set_result, None)
        await done

    def _run_once(self) -> None:
        ready = self._ready  # type: ignore[attr-defined]  # asyncio's own queue
        if not ready:
            ready.append(self._next_timer())
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001 - as the base class does

    def _next_timer(self) -> asyncio.TimerHandle:
        while self._timers:
            when, _, _, timer = heappop(self._timers)
            if not timer.cancelled():
                self._virtual.now = max(self._virtual.now, when)
                return timer
        raise StuckError("nothing to do and no timer set: a task waits for what never comes")

    def _write_to_self(self) -> None:
        """There is one thread: nobody has to be woken from outside."""
