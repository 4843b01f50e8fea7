"""`app.middleware`: which functions surround the tasks of an app, and how a task is wrapped."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mulligan.app.annotations import signature_of
from mulligan.core.errors import InvalidError
from mulligan.engine.current import CurrentCall, current_call
from mulligan.engine.middleware import Around, Middleware, surround, surround_plain, without_waiting

if TYPE_CHECKING:
    from mulligan.app.task import Task


def declared(
    function: Callable[..., Any], before: Sequence[Middleware], *, plain_only: bool
) -> Middleware:
    """The function as middleware that is declared after these; refuses what cannot surround."""
    if not callable(function):
        raise InvalidError(f"middleware {function!r} is no function; use @app.middleware above one")
    name = getattr(function, "__name__", None) or type(function).__name__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidError(
            f"middleware {name} is a generator function; instead of yield write call(), and return"
            " its value: return await call()"
        )
    try:
        signature_of(function).bind(None, None)
    except TypeError as error:
        raise InvalidError(
            f"middleware {name} is called as {name}(call, job): {error}; let it take these two"
        ) from error
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object may have an async one
    )
    inner = next((each.name for each in before if not each.is_async), None)
    if is_async and plain_only:
        raise InvalidError(
            f"middleware {name} is a coroutine function, which surrounds every task; leave"
            " plain_only= out, or make it a plain function"
        )
    if is_async and inner is not None:
        raise InvalidError(
            f"middleware {name} is a coroutine function, declared after {inner}, which is plain and"
            f" runs in the thread of a plain function, inside all async middleware; declare {name}"
            " first"
        )
    return Middleware(name, function, is_async, plain_only)


def check(task: "Task[..., Any]", middleware: Iterable[Middleware]) -> None:
    """Refuse plain middleware around a coroutine function, unless it is for plain ones only."""
    for each in middleware if task.is_async else ():
        if not each.is_async and not each.plain_only:
            raise InvalidError(
                f"middleware {each.name} is a plain function and would end before task {task.name},"
                " which is a coroutine function, has run; make it async def and return"
                " await call(), which surrounds plain functions too, or if it is meant for those"
                " alone: @app.middleware(plain_only=True)"
            )


def wrap(task: "Task[..., Any]", middleware: Sequence[Middleware]) -> None:
    """Have workers call the task with this middleware around it."""
    outer = [each for each in middleware if each.is_async]
    inner = [each for each in middleware if not each.is_async]
    if task.is_async:
        task.function = around_coroutine(task, outer)
    elif task.transactional:
        task.function = around_plain_sink(task, outer, inner)
    else:
        task.function = around_plain(task, inner) if inner else task.__wrapped__
        task.around = around_thread(task, outer) if outer else None


def around_coroutine(task: "Task[..., Any]", outer: Sequence[Middleware]) -> Callable[..., Any]:
    """The coroutine function with async middleware around it."""
    function = task.__wrapped__

    @functools.wraps(function)
    async def called(*args: Any, **kwargs: Any) -> Any:
        return await surround(
            outer, partial(function, *args, **kwargs), call_of(task, args, kwargs)
        )

    return called


def around_plain(task: "Task[..., Any]", inner: Sequence[Middleware]) -> Callable[..., Any]:
    """The plain function with plain middleware around it."""
    function = task.__wrapped__

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        start = partial(function, *args, **kwargs)
        return surround_plain(inner, start, call_of(task, args, kwargs))

    return called


def around_thread(task: "Task[..., Any]", outer: Sequence[Middleware]) -> Around:
    """What runs async middleware around a plain function, wherever `start` has it run."""

    async def around(
        start: Callable[[], Awaitable[Any]], args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return await surround(outer, start, call_of(task, tuple(args), kwargs))

    return around


def around_plain_sink(
    task: "Task[..., Any]", outer: Sequence[Middleware], inner: Sequence[Middleware]
) -> Callable[..., Any]:
    """The plain transactional sink with all middleware around it, within the store's commit."""
    within = around_plain(task, inner)

    @functools.wraps(within)
    def called(*args: Any, **kwargs: Any) -> Any:
        async def start() -> Any:
            return within(*args, **kwargs)

        return without_waiting(surround(outer, start, call_of(task, args, kwargs)))

    return called


def call_of(task: "Task[..., Any]", args: Sequence[Any], kwargs: Mapping[str, Any]) -> CurrentCall:
    """The call as middleware sees it: without the connection of a sink, and without resources."""
    said = {name: value for name, value in kwargs.items() if name not in task.resources}
    return current_call(args[int(task.transactional) :], said, task.app.resources)
