"""Signs of life for the service manager: the state of a process, and its watchdog."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mulligan.engine.loops import cancel_tasks

READY = "ready"
LOOK_EVERY = 0.5


def watchdog_seconds() -> float | None:
    """How often the service manager expects a sign of this process (WATCHDOG_USEC), if it does."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        return int(os.environ.get("WATCHDOG_USEC", "")) / 1e6 or None
    except ValueError:
        return None


def report(*words: str) -> None:
    """Send a state such as READY=1 to the service manager, if there is one."""
    if os.environ.get("NOTIFY_SOCKET"):
        from mulligan.supervisor.liveness import notify  # noqa: PLC0415 - often there is none

        notify(*words)


@asynccontextmanager
async def signs_of_life(unready: Callable[[], str] | None = None) -> AsyncIterator[None]:
    """Tell the service manager how this process is while the block runs; nothing if it has none.

    Sent from the loop that does the work, so that one which hangs is noticed.
    """
    if not os.environ.get("NOTIFY_SOCKET"):
        yield
        return
    sender = asyncio.ensure_future(tell(unready))
    try:
        yield
    finally:
        await cancel_tasks([sender])


async def tell(unready: Callable[[], str] | None) -> None:
    """Send WATCHDOG in time, and STATUS when it changes."""
    every, said = watchdog_seconds(), ""
    loop = asyncio.get_running_loop()
    sent = -float("inf")
    while True:
        if every is not None and loop.time() - sent >= every / 3:
            report("WATCHDOG=1")
            sent = loop.time()
        if unready is not None:
            reason = unready()
            now = f"not ready: {reason}" if reason else READY
            if now != said:
                report(f"STATUS={now}")
                said = now
        await asyncio.sleep(min(LOOK_EVERY, (every or LOOK_EVERY) / 3))
