"""Middleware: the app's functions around every call of a task.

The first that was declared is outermost. Plain middleware runs where a plain function runs, in its
thread. Async middleware runs on the loop, around coroutines, and around the thread of a plain
function.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import Any

from msgspec import Struct

from mulligan.engine.current import CurrentCall

Start = Callable[[], Any]
# Runs async middleware around the start of a plain function, given the arguments of the call.
Around = Callable[[Callable[[], Awaitable[Any]], Iterable[Any], Mapping[str, Any]], Awaitable[Any]]


class Middleware(Struct, frozen=True):
    """A function that is given `call`, to run what is inside of it, and the current call."""

    name: str
    function: Callable[[Start, CurrentCall], Any]
    is_async: bool
    plain_only: bool = False


async def surround(
    middleware: Sequence[Middleware], start: Callable[[], Awaitable[Any]], job: CurrentCall
) -> Any:
    """Run async middleware, in order, around `start`."""
    call = start
    for each in reversed(middleware):
        call = partial(step, each, call, job)
    return await call()


async def step(middleware: Middleware, call: Start, job: CurrentCall) -> Any:
    """Run one; refuses a call that it made and did not await."""
    value = await middleware.function(call, job)
    if isawaitable(value):
        if iscoroutine(value):
            value.close()
        raise TypeError(
            f"middleware {middleware.name} returned what it did not await; write:"
            " return await call()"
        )
    return value


def surround_plain(middleware: Sequence[Middleware], start: Start, job: CurrentCall) -> Any:
    """Run plain middleware, in order, around `start`, in this thread."""
    call = start
    for each in reversed(middleware):
        call = partial(each.function, call, job)
    return call()


def without_waiting(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run async middleware to its end where nothing can be awaited: within a commit of SQLite."""
    try:
        coroutine.send(None)
    except StopIteration as answer:
        return answer.value
    coroutine.close()
    raise RuntimeError(
        "async middleware waited around a plain transactional sink, which runs within a commit;"
        " let it await nothing but call() for such a sink"
    )
