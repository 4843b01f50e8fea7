"""Threads for plain functions. One that outlives its timeout is abandoned, never waited for."""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class OutlivedError(Exception):
    """The function was still running when its time was up."""


class Work:
    """One call on its way through a thread."""

    __slots__ = ("abandoned", "call", "context", "error", "future", "value")

    def __init__(self, call: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        self.call = call
        self.context = contextvars.copy_context()
        self.future = future
        self.value: Any = None
        self.error: BaseException | None = None
        self.abandoned = False


class Threads:
    """Runs plain functions beside the loop; starts a thread whenever none is idle.

    The caller's slots bound how many there are. They are daemons: a stuck one does not keep the
    process alive.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._finished: deque[Work] = deque()
        self._idle = 0
        self._started = 0
        self._lock = threading.Lock()
        self._collecting = False
        self.abandoned = 0

    async def run(self, call: Callable[[], Any], timeout: float | None) -> Any:  # noqa: ASYNC109
        """Run the call in a thread; after `timeout` give up on it and raise OutlivedError."""
        work = Work(call, self._loop.create_future())
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._started += 1
                name = f"mulligan-{self._started}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._work.put(work)
        timer = asyncio.timeout(timeout)
        try:
            async with timer:
                return await work.future
        except (TimeoutError, asyncio.CancelledError) as error:
            if work.future.cancelled():  # the thread is still at it
                work.abandoned = True
                self.abandoned += 1
            if timer.expired():
                raise OutlivedError from error
            raise

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._started):
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work.value = work.context.run(work.call)
            except StopIteration as error:  # a future cannot carry it
                work.error = RuntimeError(f"the function raised StopIteration: {error}")
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                work.error = error
            with self._lock:
                self._idle += 1
                self._finished.append(work)
                ring = not self._collecting
                self._collecting = True
            if ring:
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:
                    return  # the loop is closed; nobody waits any more

    def _collect(self) -> None:
        with self._lock:
            finished, self._finished = self._finished, deque()
            self._collecting = False
        for work in finished:
            if work.abandoned:
                self.abandoned -= 1
            elif not work.future.done():
                if work.error is None:
                    work.future.set_result(work.value)
                else:
                    work.future.set_exception(work.error)
