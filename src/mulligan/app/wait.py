"""Waiting for the end of a job: the store tells, and in case it does not, one looks."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Protocol

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.job import Job
from mulligan.stores.contract import Store
from mulligan.stores.watches import Tell, Watch

# Seconds between two looks, the first and the longest: where the store tells, where it does not,
# and while it is away.
TOLD, POLLED, AWAY = (0.02, 10.0), (0.005, 0.25), (0.25, 0.25)
GROWTH = 1.5
# For how many seconds the store may be away, say because it restarts, before a wait gives up.
AWAY_AT_MOST = 60.0

Call = Callable[[Callable[[Store], Any]], Awaitable[Any]]


class Waiter(Protocol):
    """What a caller sleeps on until `tell` is called."""

    def tell(self) -> None:
        """End the sleep, or the next one; from any thread."""
        ...

    def now(self) -> float:
        """The time in seconds, from any start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep until `tell` is called or the time is up."""
        ...


class ThreadWaiter:
    """Plain code, without an event loop."""

    def __init__(self) -> None:
        self._told = threading.Event()

    def tell(self) -> None:
        """End the sleep, or the next one."""
        self._told.set()

    def now(self) -> float:
        """The monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep in this thread."""
        self._told.wait(min(seconds, threading.TIMEOUT_MAX))
        self._told.clear()


class LoopWaiter:
    """A coroutine on the running loop, or on another that is given."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._told = asyncio.Event()

    def tell(self) -> None:
        """End the sleep, or the next one."""
        with suppress(RuntimeError):  # nobody waits on a loop that is closed
            self._loop.call_soon_threadsafe(self._told.set)

    def now(self) -> float:
        """The time of the loop."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the loop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == inf else seconds):
                await self._told.wait()
        self._told.clear()


async def until_over(
    call: Call,
    waiter: Waiter,
    look: Callable[[], Awaitable[Job]],
    is_over: Callable[[Job], bool],
    within: float,
) -> Job:
    """The job when it is over, or as it is when the time is up.

    `look` gives the job to wait for now: of a chain that is another one with each stage. Once it
    has been seen, a store that is away for a while is waited for too.
    """
    job, watch, rate = await look(), None, TOLD
    wait, longest = rate
    ends = waiter.now() + within
    failing: float | None = None  # since when
    try:
        while not is_over(job) and (left := ends - waiter.now()) > 0:
            try:
                if watch is None or watch[0] != job.id:
                    close(watch)
                    watch = None
                    told: Watch = await call(partial(begin, job=job.id, tell=waiter.tell))
                    watch, rate = (job.id, told), TOLD if told.is_told else POLLED
                    wait, longest = rate
                else:
                    await waiter.sleep(min(wait, left))
                    wait = min(wait * GROWTH, longest)
                job = await look()
                if failing is not None:
                    failing, (wait, longest) = None, rate
            except StoreUnavailableError:
                wait, longest = AWAY
                failing = waiter.now() if failing is None else failing
                if waiter.now() - failing > AWAY_AT_MOST:
                    raise
                if watch is None:
                    await waiter.sleep(min(wait, left))
    finally:
        close(watch)
    return job


async def begin(store: Store, job: str, tell: Tell) -> Watch:
    """Watch the job."""
    return await store.watch(job, tell)


def close(watch: tuple[str, Watch] | None) -> None:
    """End the watch, if there is one."""
    if watch is not None:
        watch[1].close()
