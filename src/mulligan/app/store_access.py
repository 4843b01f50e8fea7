"""Calls the store from anywhere: plain code, threads, other event loops, and tasks.

`StoreAccess.acall` is the one way in. Plain code runs a coroutine that calls it, by `run`.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from mulligan.app.enqueue_batches import LoopBatches, ThreadBatches
from mulligan.app.wait import LoopWaiter, ThreadWaiter, Waiter
from mulligan.core.errors import StoreError
from mulligan.core.job import Enqueued, NewJob
from mulligan.stores.contract import (
    BlockingProducer,
    EnqueuesHere,
    HasBlockingProducer,
    NotDoneError,
    Store,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]
Operation = Callable[[Store], Coroutine[Any, Any, T]]
# Whether plain code runs this coroutine without a loop, perhaps inside a coroutine on one.
PLAIN: ContextVar[bool] = ContextVar("mulligan_plain", default=False)
Enqueue = Callable[[Sequence[NewJob]], list[Enqueued]]
LoopStore = tuple[asyncio.AbstractEventLoop, Store]
# How long the store, and the calls under way, may take to end.
END_WITHIN = 5.0


class StoreAccess(Protocol):
    """Runs operations on a store."""

    # Whether jobs on a connection of the user's are part of its transaction. Not in tests, which
    # have a store of their own.
    joins_transactions: bool

    def run(self, work: Work[T]) -> T:
        """Run a coroutine from plain code, where it reaches the store, and wait for its answer."""
        ...

    async def acall(self, operation: Operation[T]) -> T:
        """Run an operation on the open store, from a coroutine on any loop."""
        ...

    async def aenqueue(self, job: NewJob) -> Enqueued:
        """Store one job, from a coroutine on any loop, together with those of others."""
        ...

    def enqueue(self, job: NewJob) -> Enqueued:
        """Store one job, from plain code in any thread, together with those of others."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep between two reads of the store."""
        ...

    def waiter(self) -> Waiter:
        """What the caller sleeps on until a store tells it something."""
        ...

    def use_on_loop(self, store: Store | None) -> None:
        """Use this open store for coroutines on the running loop; None ends that."""
        ...

    def connected(self) -> AbstractAsyncContextManager[None]:
        """Have coroutines on the running loop use a store of its own, until the block ends."""
        ...

    def close(self) -> None:
        """Close the store and end the thread, if there is one."""
        ...


class Batches:
    """What shares batches, for each event loop on which jobs are enqueued."""

    def __init__(self, acall: Callable[[Operation[Any]], Coroutine[Any, Any, Any]]) -> None:
        self._acall = acall
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBatches] = WeakKeyDictionary()

    @property
    def here(self) -> LoopBatches:
        """That of the running loop."""
        loop = asyncio.get_running_loop()
        batches = self._of.get(loop)
        if batches is None:
            batches = self._of[loop] = LoopBatches(self._enqueue)
        return batches

    async def _enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        answers: list[Enqueued] = await self._acall(lambda store: store.enqueue(jobs))
        return answers


class ThreadAccess:
    """A thread with an event loop that owns a store, started at the first call.

    Inside a worker, coroutines on the worker's own loop use its store directly.
    """

    joins_transactions = True

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._opening = asyncio.Lock()
        self._calls: set[asyncio.Task[Any]] = set()
        self._loop_store: LoopStore | None = None
        self._batches = Batches(self.acall)
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


class DirectAccess:
    """For embedded stores: plain code runs its operations itself, without a thread or a loop."""

    joins_transactions = True

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._store: Store | None = None
        self._enqueue_here: Enqueue
        self._lock = threading.Lock()
        self._loop_store: LoopStore | None = None
        self._batches = Batches(self.acall)
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


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as answer:
        value: T = answer.value
        return value
    coroutine.close()
    raise RuntimeError("the operation waited, and there is no event loop to wait on")
