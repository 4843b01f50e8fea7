"""Sinks that are run within the commit that finishes them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from typing import Any

from mulligan.core.signals import Fail, RetryAfter, Snooze
from mulligan.engine.judging import AttemptTimeoutError


class WorkError(Exception):
    """What a transactional sink raised, told apart from what the store raises around it."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def guarded(
    function: Callable[..., Any],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
    timeout: float | None = None,  # noqa: ARG001 - a plain function cannot be stopped
) -> Callable[[Any], Any]:
    """The sink's work on a connection, its errors and signals marked as its own."""
    # A store may have it done in a thread of its own; `current_job` is to know it there too.
    context = copy_context()

    def work(connection: Any) -> None:
        try:
            heed(context.run(function, connection, *args, **kwargs))
        except BaseException as error:
            raise WorkError(error) from error

    return work


def guarded_coroutine(
    function: Callable[..., Any],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
    timeout: float | None = None,
) -> Callable[[Any], Any]:
    """The same for a coroutine function, which may take so long."""

    async def work(connection: Any) -> None:
        timer = asyncio.timeout(timeout)
        try:
            async with timer:
                heed(await function(connection, *args, **kwargs))
        except asyncio.CancelledError:
            raise
        except TimeoutError as error:
            late = AttemptTimeoutError(f"the attempt took longer than {timeout} s")
            raise WorkError(late if timer.expired() else error) from error
        except BaseException as error:
            raise WorkError(error) from error

    return work


def heed(value: Any) -> None:
    """A signal may be returned as well as raised."""
    if isinstance(value, RetryAfter | Fail | Snooze):
        raise value
