"""Plain functions of a test's workers: they run on the virtual loop, and see no loop.

So `asyncio.run(…)` and `job.result()` work in them, as they do in the threads of a worker. While a
plain function waits for a result, the virtual loop goes on within its call.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


# The task in which a plain function is called.
CALLER: ContextVar["asyncio.Task[Any] | None"] = ContextVar("mulligan_caller", default=None)


@contextmanager
def running(
    loop: asyncio.AbstractEventLoop | None, within: "asyncio.Task[Any] | None" = None
) -> Iterator[None]:
    """Have this thread run another loop, or none, instead of its own one; `within` a task of it."""
    outer = asyncio._get_running_loop()  # noqa: SLF001 - asyncio has no public way
    task = None if outer is None else asyncio.current_task(outer)
    if outer is not None and task is not None:
        asyncio.tasks._leave_task(outer, task)  # noqa: SLF001
    asyncio._set_running_loop(loop)  # noqa: SLF001
    if loop is not None and within is not None:
        asyncio.tasks._enter_task(loop, within)  # noqa: SLF001
    try:
        yield
    finally:
        if loop is not None and within is not None:
            asyncio.tasks._leave_task(loop, within)  # noqa: SLF001
        asyncio._set_running_loop(outer)  # noqa: SLF001
        if outer is not None and task is not None:
            asyncio.tasks._enter_task(outer, task)  # noqa: SLF001


class CallsWithoutLoop:
    """Calls plain functions in this thread, which seems to run no loop meanwhile."""

    async def run(self, call: Callable[[], Any], timeout: float | None) -> Any:  # noqa: ASYNC109, ARG002
        """Call it. A call on a virtual clock takes no time."""
        caller = CALLER.set(asyncio.current_task())
        try:
            with running(None):
                return call()
        finally:
            CALLER.reset(caller)


def is_within(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether this thread runs the loop, also while a plain function sees no loop."""
    return getattr(loop, "_thread_id", None) == threading.get_ident()


def answer_at_once(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]
) -> tuple[T] | None:
    """Return what the coroutine gives, in a tuple, if it waits for nothing; else close it."""
    with running(loop, CALLER.get()):
        try:
            coroutine.send(None)
        except StopIteration as answer:
            return (answer.value,)
        coroutine.close()
        return None


def nested(loop: Any, coroutine: Coroutine[Any, Any, T]) -> T:
    """Let the loop that this thread runs go on until the coroutine has ended."""
    with running(loop):
        counted = len(loop._ready)  # noqa: SLF001
        task = loop.create_task(coroutine, context=copy_context())
        stopping = False
        while not task.done():
            loop._run_once()  # noqa: SLF001
            # A loop that is to stop waits for nothing any more; it stops when this call is over.
            stopping, loop._stopping = stopping or loop._stopping, False  # noqa: SLF001
        loop._stopping = stopping  # noqa: SLF001
        # The loop has counted what was ready before this call, and takes as many after it.
        for _ in range(counted):
            loop.call_soon(int)
    result: T = task.result()
    return result
