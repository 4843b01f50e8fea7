"""Threads for plain functions. A function that outlives its timeout is abandoned in its thread."""

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from mulligan.engine.loop_watch import Deadline, never_held

# What an idle thread is sent: that work waits, or that it shall end.
WORK_WAITS, END = True, False
MOST_BY_DEFAULT = 32


class OutlivedError(Exception):
    """The function was still running when its timeout was over."""


class Work:
    """One call of a function, its thread's answer, and the future for it."""

    __slots__ = ("abandoned", "begun", "call", "context", "error", "future", "over", "value")

    def __init__(self, call: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        self.call = call
        self.context = contextvars.copy_context()
        self.future = future
        self.value: Any = None
        self.error: BaseException | None = None
        self.abandoned = False
        self.over = False
        self.begun: Callable[[], None] | None = None


def default_limit() -> int:
    """How many plain functions a worker runs at a time by default."""
    return min(MOST_BY_DEFAULT, (os.cpu_count() or 1) + 4)


class Threads:
    """Runs plain functions in threads, at most `limit` at a time; the others wait.

    Waking a thread costs more than many functions do. So threads are woken one at a time: a thread
    takes the first function that waits, wakes another thread if more wait, and takes functions
    until none waits. A hundred functions that block soon have a hundred threads. A hundred that
    return at once hardly need two.

    A thread is started when none is idle and fewer than `limit` serve; an abandoned thread does not
    count as serving. All are daemons: a stuck thread does not keep the process alive.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit: int | None = None,
        held: Callable[[], float] = never_held,
    ) -> None:
        self._loop = loop
        self._held = held
        self._limit = default_limit() if limit is None else limit
        self._serving = 0
        self._waiting: deque[Work] = deque()
        self._finished: deque[Work] = deque()
        self._wakeups: SimpleQueue[bool] = SimpleQueue()
        self._idle = 0
        self._started = 0
        self._lock = threading.Lock()
        self._waking = False
        self._collecting = False
        self.abandoned = 0

    async def run(self, call: Callable[[], Any], timeout: float | None) -> Any:  # noqa: ASYNC109
        """Run the call in a thread; raise OutlivedError `timeout` seconds after it began."""
        work = Work(call, self._loop.create_future())
        deadline = None if timeout is None else Deadline(timeout, self._held)
        if deadline is not None:
            work.begun = deadline.begin
        with self._lock:
            self._wake()
            self._waiting.append(work)
        try:
            if deadline is None:
                return await work.future
            async with deadline:
                return await work.future
        except (TimeoutError, asyncio.CancelledError) as error:
            if work.future.cancelled():
                self._give_up(work)
            if deadline is not None and deadline.expired:
                raise OutlivedError from error
            raise

    def close(self) -> None:
        """Have the threads end once they are idle."""
        for _ in range(self._started):
            self._wakeups.put(END)

    def _give_up(self, work: Work) -> None:
        """Drop work that waits, or abandon the thread that runs it: it then no longer serves."""
        with self._lock:
            if work in self._waiting:
                self._waiting.remove(work)
            elif not work.over:
                work.abandoned = True
                self.abandoned += 1
                self._serving -= 1
                if self._waiting:
                    self._wake()

    def _wake(self) -> None:
        """Wake or start one thread, unless one that was woken has not looked yet."""
        if self._waking:
            return
        if self._idle:
            self._idle -= 1
            self._wakeups.put(WORK_WAITS)
        elif self._serving >= self._limit or not self._start():
            return
        self._waking = True

    def _start(self) -> bool:
        """Start a thread; whether it did. If the system refuses, existing threads do the work."""
        name = f"mulligan-{self._started + 1}"
        try:
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        except RuntimeError:  # the system allows no more threads
            if not self._started:
                raise
            return False
        self._started += 1
        self._serving += 1
        return True

    def _serve(self) -> None:
        work = self._first()
        while work is not None or self._wakeups.get():
            if work is None:
                work = self._first()
                continue
            if work.begun is not None:
                self._call_on_loop(work.begun)
            try:
                work.value = work.context.run(work.call)
            except (StopIteration, GeneratorExit) as error:  # what awaits cannot be given them
                said = f"the function raised {type(error).__name__}: {error}"
                work.error = RuntimeError(said.removesuffix(": "))
                work.error.__cause__ = error
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                work.error = error
            stays, work = self._next(work)
            if not stays:
                return

    def _first(self) -> Work | None:
        """The first work for a thread that was woken; None if other threads took it all."""
        with self._lock:
            self._waking = False
            return self._take()

    def _next(self, done: Work) -> tuple[bool, Work | None]:
        """Hand over finished work; whether the thread goes on serving, and its next work.

        An abandoned thread that ends its work serves again only if fewer than the limit do.
        """
        stays, work = True, None
        with self._lock:
            done.over = True
            self._finished.append(done)
            notify = not self._collecting
            self._collecting = True
            if done.abandoned:
                stays = self._serving < self._limit
                self._serving += stays
                self._started -= not stays
            if stays:
                work = self._take()
        if notify:
            self._call_on_loop(self._collect)
        return stays, work

    def _call_on_loop(self, callback: Callable[[], None]) -> None:
        # Nobody waits on a loop that is closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

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
            if work.abandoned:
                self.abandoned -= 1
            elif not work.future.done():
                if work.error is None:
                    work.future.set_result(work.value)
                else:
                    work.future.set_exception(work.error)
