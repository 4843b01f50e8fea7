"""What the loops of a worker share: store calls tried again, tasks ended for sure, own threads."""

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from mulligan.core.errors import StoreError

log = logging.getLogger("mulligan.worker")

T = TypeVar("T")
CANCEL_EVERY = 0.1
# The first and the longest wait before a store call is tried again.
FIRST, LONGEST = 0.05, 5.0
# By then the wait is the longest in any case, and the power of two still fits a float.
MOST_DOUBLINGS = 30


class StoreRetry:
    """Tries a failed store call again, with a longer wait each time.

    It counts failures in a row; each loop has one of its own.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0

    @property
    def failing(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    async def call(
        self,
        operation: Callable[[], Awaitable[T]],
        through: tuple[type[Exception], ...] = (StoreError, OSError),
    ) -> T:
        """Run the operation until the store answers; errors not in `through` are raised."""
        while True:
            try:
                answer = await operation()
            except through as error:
                await self.pause(error)
            else:
                if self._failures:
                    log.info("%s: the store answers again", self._what)
                self._failures = 0
                return answer

    async def pause(self, error: Exception) -> None:
        """Log the error, and wait about twice as long as the last time."""
        doublings = min(self._failures, MOST_DOUBLINGS)
        delay = min(LONGEST, FIRST * 2**doublings) * random.uniform(0.5, 1.0)
        if self._failures in (0, 5) or self._failures % 60 == 0:
            log.warning("%s: %s; trying again", self._what, error)
        self._failures += 1
        await asyncio.sleep(delay)


async def cancel_tasks(tasks: Sequence["asyncio.Future[Any]"]) -> None:
    """Cancel the tasks until they have ended.

    One cancellation may not be enough: `wait_for` of Python 3.11, which drivers use, swallows one
    that arrives together with the answer.
    """
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_EVERY)
    await asyncio.gather(*tasks, return_exceptions=True)


async def ended_before(event: asyncio.Event, *loops: "asyncio.Future[Any]") -> bool:
    """Wait for the event, or for one of the loops to end; says whether a loop did.

    Raises what ended the loop, if that was an error.
    """
    happened: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    try:
        done, _ = await asyncio.wait([happened, *loops], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_tasks([happened])
    ended = done - {happened}
    for loop in ended:
        loop.result()
    return bool(ended)


class OwnThread:
    """Runs a coroutine on an event loop and thread of its own until stopped."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    def start(
        self,
        work: Callable[[], Coroutine[Any, Any, None]],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Start the thread and return at once. An error that ends the coroutine goes to `failed`.

        So does an error that keeps the thread from getting a loop, such as too many open files.
        """
        ready = threading.Event()

        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.ensure_future(work())
            ready.set()
            await asyncio.wait([self._task])
            error = None if self._task.cancelled() else self._task.exception()
            if error is not None:
                failed(error)

        def run() -> None:
            try:
                with asyncio.Runner() as runner:
                    runner.run(main())
            except Exception as error:  # noqa: BLE001 - `failed` must know
                failed(error)
            finally:
                ready.set()

        self._thread = threading.Thread(target=run, name=self._name, daemon=True)
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """Cancel the coroutine and wait for the thread."""
        if self._loop is not None and self._task is not None and self._thread is not None:
            with contextlib.suppress(RuntimeError):  # the loop may have ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(timeout=5)
