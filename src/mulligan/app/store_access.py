"""Calls the store from anywhere: plain code, threads, other event loops, and tasks.

`StoreAccess.acall` is the one way in. Plain code runs a coroutine that calls it, by `run`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from mulligan.app.wait import Waiter
from mulligan.core.job import Enqueued, NewJob
from mulligan.stores.contract import (
    Store,
)

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]
Operation = Callable[[Store], Coroutine[Any, Any, T]]
LoopStore = tuple[asyncio.AbstractEventLoop, Store]


class StoreAccess(Protocol):
    """Runs operations on a store."""

    # Whether jobs on a connection of the user's are part of its transaction. Not in tests, which
    # have a store of their own.
    joins_transactions: bool
    # Whether plain code that waits blocks the event loop of its thread; not on a virtual clock.
    blocks_loops: bool

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
