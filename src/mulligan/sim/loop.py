"""The clock of a simulation: events of one instant happen in a fixed order."""

import asyncio
import itertools
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from mulligan.testing.virtual import StuckError, VirtualLoop

if TYPE_CHECKING:
    from collections import deque

NANOSECOND = 1e-9
# The rank of a worker in the scenario, which its tasks inherit. Arrivals come first.
RANK: ContextVar[int] = ContextVar("mulligan_rank", default=-1)


class Step(asyncio.TimerHandle):
    """A callback to run: like asyncio's handle, with only what a simulation needs."""

    __slots__ = ("arguments", "call", "context", "off")

    def __init__(
        self, call: Callable[..., object], arguments: tuple[Any, ...], context: Context | None
    ) -> None:
        self.call = call
        self.arguments = arguments
        self.context = copy_context() if context is None else context  # an empty one is false
        self.off = False

    def cancel(self) -> None:
        """Do not run it."""
        self.off = True

    def cancelled(self) -> bool:
        """Whether it is not to run."""
        return self.off


class OrderedLoop(VirtualLoop):
    """A virtual loop that fires one timer, then runs all that follows from it, then the next.

    Timers of one instant fire by the rank of their worker, and then in the order they were set.
    """

    def __init__(self) -> None:
        super().__init__()
        self._moment = 0.0
        self._ready: deque[Step]
        self._stopping: bool
        self._timers: list[tuple[float, int, int, Step]] = []
        self._count = itertools.count()

    def time(self) -> float:
        """The virtual time in seconds."""
        return self._moment

    # Called for every future and task; a simulation needs no debug mode.
    get_debug = staticmethod(bool)

    def call_soon(  # type: ignore[override]  # its stub has a variadic type that gives nothing
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run it at this instant, after the callbacks that already wait."""
        step = Step(callback, args, context)
        self._ready.append(step)
        return step

    # There is one thread.
    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]  # as call_soon
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer."""
        return self._set(self._moment + delay, Step(callback, args, context))

    def call_at(  # type: ignore[override]  # as call_soon
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer."""
        return self._set(when, Step(callback, args, context))

    def _set(self, when: float, step: Step) -> Step:
        """Set the timer. Times are rounded to the nanosecond, so that sums of floats are equal.

        A time ahead is never rounded to now: a coroutine that waits for it would otherwise be
        woken again and again at the same instant.
        """
        moment = round(when, 9)
        if moment <= self._moment < when:
            moment = self._moment + NANOSECOND
        heappush(self._timers, (moment, RANK.get(), next(self._count), step))
        return step

    async def quiet(self) -> None:
        """Wait until only timers are left."""
        done = self.create_future()
        self.call_at(self.time(), done.set_result, None)
        await done

    def _run_once(self) -> None:
        """Run callbacks and timers until stopped, without waiting.

        An exception in a callback ends the simulation.
        """
        ready = self._ready
        next_step = ready.popleft
        while True:
            if not ready:
                ready.append(self._next_timer())
            for _ in range(len(ready)):
                step = next_step()
                if not step.off:
                    step.context.run(step.call, *step.arguments)
            if self._stopping:
                return

    def _next_timer(self) -> Step:
        while self._timers:
            when, _, _, step = heappop(self._timers)
            if not step.off:
                self._moment = max(self._moment, when)
                return step
        raise StuckError("nothing to do and no timer set: a task waits for what never comes")
