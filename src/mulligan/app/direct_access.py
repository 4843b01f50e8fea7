"""Direct access to a store, for those that live in the calling process: SQLite and memory."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from typing import TypeVar, cast

from mulligan.app.enqueue_batches import Batches, ThreadBatches
from mulligan.app.enqueue_thread import Enqueue, EnqueueThread
from mulligan.app.store_access import LoopStore, Operation, Work
from mulligan.app.wait import LoopWaiter, ThreadWaiter, Waiter
from mulligan.core.at_once import at_once
from mulligan.core.job import Enqueued, NewJob
from mulligan.stores.contract import (
    EnqueuesHere,
    Store,
)

T = TypeVar("T")
# Whether plain code runs this coroutine without a loop, perhaps inside a coroutine on one.
PLAIN: ContextVar[bool] = ContextVar("mulligan_plain", default=False)


class DirectAccess:
    """For embedded stores: plain code runs its operations itself, without a thread or a loop."""

    joins_transactions = True
    blocks_loops = True

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._store: Store | None = None
        self._enqueue_here: Enqueue
        self._lock = threading.Lock()
        self._loop_store: LoopStore | None = None
        self._thread = EnqueueThread()
        self._batches = Batches(self._enqueue_for_loop)
        self._plain_batches = ThreadBatches(self._enqueue)

    def run(self, work: Work[T]) -> T:
        """Run the coroutine to its end, here."""
        plain = PLAIN.set(True)
        try:
            return at_once(work())
        finally:
            PLAIN.reset(plain)

    async def acall(self, operation: Operation[T]) -> T:
        """Run it here for plain code or on the worker's loop, else in a thread."""
        if PLAIN.get():
            return await operation(self._opened())
        if self._loop_store is not None and self._loop_store[0] is asyncio.get_running_loop():
            return await operation(self._loop_store[1])
        return await asyncio.to_thread(self.run, lambda: self.acall(operation))

    async def aenqueue(self, job: NewJob) -> Enqueued:
        """Store one job together with those of other coroutines, or of other plain code."""
        if PLAIN.get():
            return self.enqueue(job)
        return await self._batches.here.add(job)

    async def _enqueue_for_loop(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs of coroutines, in a thread: there is one for all loops."""
        if self._loop_store is not None and self._loop_store[0] is asyncio.get_running_loop():
            return await self._loop_store[1].enqueue(jobs)
        return await self._thread.run(self._enqueue, jobs)

    def enqueue(self, job: NewJob) -> Enqueued:
        """Store one job, here, together with those of other threads."""
        return self._plain_batches.add(job)

    def _enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if self._store is None:
            self._opened()
        return self._enqueue_here(jobs)

    async def sleep(self, seconds: float) -> None:
        """Sleep on the loop, or where there is none, in this thread."""
        if PLAIN.get():
            time.sleep(seconds)  # noqa: ASYNC251 - plain code has no loop to wait on
        else:
            await asyncio.sleep(seconds)

    def waiter(self) -> Waiter:
        """The running loop's, or where there is none, this thread's."""
        return ThreadWaiter() if PLAIN.get() else LoopWaiter()

    def use_on_loop(self, store: Store | None) -> None:
        """Use this open store for coroutines on the running loop; None ends that."""
        self._loop_store = None if store is None else (asyncio.get_running_loop(), store)

    def connected(self) -> AbstractAsyncContextManager[None]:
        """There is no connection to keep."""
        return nullcontext()

    def close(self) -> None:
        """Close the store; a later call opens it again."""
        self._thread.close()
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            at_once(store.close())

    def _opened(self) -> Store:
        with self._lock:
            if self._store is None:
                store = self._make()
                at_once(store.open())
                self._enqueue_here = enqueue_here_of(store)
                self._store = store
            return self._store


def enqueue_here_of(store: Store) -> Enqueue:
    """How plain code enqueues: without a coroutine, where the store can."""
    if getattr(store, "enqueue_here", None) is None:
        return lambda jobs: at_once(store.enqueue(jobs))
    return cast("EnqueuesHere", store).enqueue_here
