"""Threads for plain functions. One that outlives its timeout is abandoned, never waited for."""

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

LOOK, GO_HOME = True, False


class OutlivedError(Exception):
    """The function was still running when its time was up."""


class Work:
    """One call on its way through a thread."""

    __slots__ = ("abandoned", "call", "context", "error", "future", "over", "value")

    def __init__(self, call: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        self.call = call
        self.context = contextvars.copy_context()
        self.future = future
        self.value: Any = None
        self.error: BaseException | None = None
        self.abandoned = False
        self.over = False


class Threads:
    """Runs plain functions beside the loop; starts a thread whenever none is idle.

    Waking a thread costs more than many a function does. So one at a time is woken: it takes the
    first of what waits, wakes the next if there is more, and goes on taking until nothing waits.
    A hundred functions that block are soon in a hundred threads, and a hundred that return at once
    need hardly two.

    The caller's slots bound how many there are. They are daemons: a stuck one does not keep the
    process alive.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Work] = deque()
        self._finished: deque[Work] = deque()
        self._bell: SimpleQueue[bool] = SimpleQueue()
        self._idle = 0
        self._started = 0
        self._lock = threading.Lock()
        self._waking = False
        self._collecting = False
        self.abandoned = 0

    async def run(self, call: Callable[[], Any], timeout: float | None) -> Any:  # noqa: ASYNC109
        """Run the call in a thread; after `timeout` give up on it and raise OutlivedError."""
        work = Work(call, self._loop.create_future())
        with self._lock:
            self._wake()
            self._waiting.append(work)
        timer = None if timeout is None else asyncio.timeout(timeout)
        try:
            if timer is None:
                return await work.future
            async with timer:
                return await work.future
        except (TimeoutError, asyncio.CancelledError) as error:
            if work.future.cancelled() and not self._took_back(work):
                work.abandoned = True
                self.abandoned += 1
            if timer is not None and timer.expired():
                raise OutlivedError from error
            raise

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._started):
            self._bell.put(GO_HOME)

    def _took_back(self, work: Work) -> bool:
        """Whether no thread is at it: none has come to it, and now none will, or it is over."""
        with self._lock:
            if work in self._waiting:
                self._waiting.remove(work)
                return True
        return work.over

    def _wake(self) -> None:
        """Have one more thread look, unless one is on its way."""
        if self._waking:
            return
        if self._idle:
            self._idle -= 1
            self._bell.put(LOOK)
        elif not self._start():
            return
        self._waking = True

    def _start(self) -> bool:
        """Start a thread, if the system lets us; else those there are take what waits, in turn."""
        name = f"mulligan-{self._started + 1}"
        try:
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        except RuntimeError:  # there are too many
            if not self._started:
                raise
            return False
        self._started += 1
        return True

    def _serve(self) -> None:
        work = self._first()
        while work is not None or self._bell.get():
            if work is None:
                work = self._first()
                continue
            try:
                work.value = work.context.run(work.call)
            except StopIteration as error:  # a future cannot carry it
                work.error = RuntimeError(f"the function raised StopIteration: {error}")
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                work.error = error
            work = self._next(work)

    def _first(self) -> Work | None:
        """What a thread that was woken finds; None if others were quicker."""
        with self._lock:
            self._waking = False
            return self._take()

    def _next(self, done: Work) -> Work | None:
        """Hand over what is done and take what waits."""
        with self._lock:
            self._finished.append(done)
            ring = not self._collecting
            self._collecting = True
            work = self._take()
        if ring:
            # A loop that is closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._collect)
        return work

    def _take(self) -> Work | None:
        if not self._waiting:
            self._idle += 1
            return None
        work = self._waiting.popleft()
        if self._waiting:
            self._wake()
        return work

    def _collect(self) -> None:
        with self._lock:
            finished, self._finished = self._finished, deque()
            self._collecting = False
        for work in finished:
            work.over = True
            if work.abandoned:
                self.abandoned -= 1
            elif not work.future.done():
                if work.error is None:
                    work.future.set_result(work.value)
                else:
                    work.future.set_exception(work.error)
