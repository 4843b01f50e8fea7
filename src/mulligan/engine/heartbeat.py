"""The heartbeat: keeps all leases of a worker, from a thread that no task can block."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from mulligan.core.answers import Beat
from mulligan.core.job import Lease
from mulligan.core.worker import Worker
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

# A dead worker is found by its lease: however slow the store is, it lasts no more times as long.
LONGEST = 10


class Heartbeat:
    """Beats every `every` seconds and hands each answer to `heard`.

    A store may take longer than that to answer. If it has twice in a row, the next lease is as many
    times longer: else whoever holds a job would lose it before the next beat, whoever reclaims it
    would too, and jobs would go round without end. Once alone may have been our own pause.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker,
        every: float,
        holding: Callable[[], Sequence[Lease]],
        heard: Callable[[Beat], None],
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._worker = worker
        self._every = every
        self._holding = holding
        self._heard = heard
        self._monotonic = monotonic
        self._store_retry = StoreRetry("heartbeat")
        self._last_two = deque([0.0, 0.0], 2)  # seconds until they were answered

    async def once(self) -> None:
        """Beat until the store has answered."""
        self._heard(await self._store_retry.call(self._beat))

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self.once()
            await asyncio.sleep(self._every)

    async def run_apart(self, store: Store) -> None:
        """Beat until cancelled, on a handle of its own that is opened and closed here."""
        self._store = store
        try:
            await self._store_retry.call(store.open)
            await self.run()
        finally:
            await store.close()

    async def _beat(self) -> Beat:
        asked = self._monotonic()
        beat = await self._store.beat(self._lasting(), self._holding())
        self._last_two.append(self._monotonic() - asked)
        return beat

    def _lasting(self) -> Worker:
        """The worker, with a lease that outlasts the answers of the store."""
        times = min(*self._last_two, LONGEST * self._every) / self._every
        if times <= 1:
            return self._worker
        return replace(self._worker, lease=times * self._worker.lease)


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
        """Start the thread; returns at once. An error that ends the coroutine goes to `failed`.

        So does one that keeps the thread from having a loop: no more files may be open, perhaps.
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
            except Exception as error:  # noqa: BLE001 - whoever waits for the thread must know
                failed(error)
            finally:
                ready.set()

        self._thread = threading.Thread(target=run, name=self._name, daemon=True)
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """Cancel the coroutine and wait for the thread."""
        if self._loop is not None and self._task is not None and self._thread is not None:
            with contextlib.suppress(RuntimeError):  # it may have ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(timeout=5)
