"""The clock of a simulated day."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from mulligan.sim.loop import OrderedLoop

TICK = 1e-9


class DayLoop(OrderedLoop):
    """A virtual loop on which a moment that is yet to come is not now, however near it is.

    Times are rounded to the nanosecond. Whoever waits for a deadline a little finer than that
    would otherwise be woken before it, for ever at the same instant.
    """

    def call_at(  # type: ignore[override]  # as in the base class
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer."""
        now = self.time()
        if when > now and round(when, 9) <= now:
            when = now + TICK
        return super().call_at(when, callback, *args, context=context)
