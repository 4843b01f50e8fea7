"""Access to a store by a thread of the app's own, for stores behind a network."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mulligan.app.enqueue_batches import Batches, ThreadBatches
from mulligan.app.store_access import LoopStore, Operation, Work
from mulligan.app.wait import LoopWaiter, Waiter
from mulligan.core.at_once import at_once
from mulligan.core.errors import StoreError
from mulligan.core.job import Enqueued, NewJob
from mulligan.stores.contract import (
    BlockingProducer,
    HasBlockingProducer,
    NotDoneError,
    Store,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
# How long the store, and the calls under way, may take to end.
END_WITHIN = 5.0


class ThreadAccess:
    """A thread with an event loop that owns a store, started at the first call.

    Inside a worker, coroutines on the worker's own loop use its store directly.
    """

    joins_transactions = True
    blocks_loops = True

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._opening = asyncio.Lock()
        self._calls: set[asyncio.Task[Any]] = set()
        self._loop_store: LoopStore | None = None
        self._batches = Batches(lambda jobs: self.acall(lambda store: store.enqueue(jobs)))
        self._plain_batches = ThreadBatches(self._enqueue)
        self._producer: BlockingProducer | None = None
        self._producer_of: int | None = None  # the process that made it
        self._inherited: list[BlockingProducer | None] = []  # not to be closed by this process

    def run(self, work: Work[T]) -> T:
        """Run the coroutine on the thread's loop and wait."""
        return self._submit(work).result()

    async def acall(self, operation: Operation[T]) -> T:
        """Run it on the running loop if that has a store, else on the thread's loop."""
        running = asyncio.get_running_loop()
        if running is self._loop:
            return await self._operate(operation)
        if self._loop_store is not None and self._loop_store[0] is running:
            return await operation(self._loop_store[1])
        return await asyncio.wrap_future(self._submit(lambda: self._operate(operation)))

    async def aenqueue(self, job: NewJob) -> Enqueued:
        """Store one job together with those of other coroutines on the running loop."""
        return await self._batches.here.add(job)

    def enqueue(self, job: NewJob) -> Enqueued:
        """Store one job, together with those of other threads.

        Where the store has a producer for plain code, the caller itself waits for the answer: to
        hand the job to the thread and be woken by it takes longer than all the rest.
        """
        return self._plain_batches.add(job)

    def _enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs from plain code; one thread at a time."""
        if self._producer_of != os.getpid():  # connections do not survive a fork
            self._inherited.append(self._producer)
            self._producer = self.run(lambda: self.acall(producer_of))
            self._producer_of = os.getpid()
        if self._producer is not None:
            try:
                return at_once(self._producer.enqueue(jobs))
            except NotDoneError:
                pass
        return self.run(lambda: self.acall(lambda store: store.enqueue(jobs)))

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(seconds)

    def waiter(self) -> Waiter:
        """The running loop's."""
        return LoopWaiter()

    def use_on_loop(self, store: Store | None) -> None:
        """Use this open store for coroutines on the running loop; None ends that."""
        self._loop_store = None if store is None else (asyncio.get_running_loop(), store)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Open a store on the running loop, unless one is used there already."""
        if self._loop_store is not None:
            yield
            return
        store = await self._opened()
        self.use_on_loop(store)
        try:
            yield
        finally:
            self.use_on_loop(None)
            await store.close()

    def close(self) -> None:
        """Close the store and end the thread; calls under way fail, later ones start it again."""
        self._plain_batches.alone(self._close_producer, END_WITHIN)
        with self._lock:
            thread, loop, store, calls = self._thread, self._loop, self._store, self._calls
            self._thread = self._loop = self._store = None
        if thread is None or loop is None or not thread.is_alive():
            return
        try:
            asyncio.run_coroutine_threadsafe(end(calls, store), loop).result(timeout=END_WITHIN)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=END_WITHIN)
        loop.close()

    def _close_producer(self) -> None:
        if self._producer is not None and self._producer_of == os.getpid():
            self._producer.close()
        self._producer = self._producer_of = None

    def _submit(self, work: Work[T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(self._serve(work), self._started())

    async def _serve(self, work: Work[T]) -> T:
        """Run it for a caller on another thread or loop, and tell the caller if the app closes."""
        task, calls = asyncio.current_task(), self._calls
        assert task is not None  # noqa: S101 - run_coroutine_threadsafe makes one
        calls.add(task)
        try:
            return await work()
        except asyncio.CancelledError:
            if asyncio.get_running_loop() is self._loop:
                raise
            message = "the app was closed during this call; close it after the last one"
            raise StoreError(message) from None
        finally:
            calls.discard(task)

    async def _operate(self, operation: Operation[T]) -> T:
        """Run it on the store of this object, which the first operation opens."""
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    self._store = await self._opened()
        return await operation(self._store)

    async def _opened(self) -> Store:
        store = self._make()
        try:
            await store.open()
        except BaseException:
            await store.close()
            raise
        return store

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                loop = self._loop = asyncio.new_event_loop()
                self._store = None  # after a fork the parent's connections are not ours
                self._opening = asyncio.Lock()
                self._calls = set()
                self._thread = threading.Thread(
                    target=loop.run_forever, name="mulligan-store", daemon=True
                )
                self._thread.start()
            assert self._loop is not None  # noqa: S101 - set together with the thread
            return self._loop


async def producer_of(store: Store) -> BlockingProducer | None:
    """The producer for plain code of a store that has one."""
    make = getattr(store, "producer", None)
    return None if make is None else cast("HasBlockingProducer", store).producer()


async def end(calls: "set[asyncio.Task[Any]]", store: Store | None) -> None:
    """Cancel the calls under way, and close the store."""
    for call in calls:
        call.cancel()
    if calls:
        await asyncio.wait(calls, timeout=END_WITHIN / 2)
    if store is not None:
        await store.close()
