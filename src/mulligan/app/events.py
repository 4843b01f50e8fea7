"""`app.on`: hooks that are called with events, and those that a producer calls itself."""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from mulligan.app.annotations import signature_of
from mulligan.core.errors import InvalidError
from mulligan.core.event import EVENTS, EventName, enqueued
from mulligan.core.job import Enqueued, NewJob
from mulligan.engine.events import EventHook, created, log_hook_failure

if TYPE_CHECKING:
    from mulligan.app.app_store import AppStore

T = TypeVar("T")
# The jobs that a call of plain code has enqueued so far; it tells the hooks when it is through.
ACCEPTED: ContextVar[list[NewJob] | None] = ContextVar("mulligan_accepted", default=None)


def check_event(event: object) -> None:
    """Refuse what is no event, such as the function when the event was forgotten."""
    if callable(event):
        raise InvalidError(f'hook {event!r} has no event; write @app.on("dead") above it')
    if event not in EVENTS:
        raise InvalidError(
            f"event {event!r} is not one of {', '.join(EVENTS)}; an attempt that failed is retry or"
            " dead"
        )


def hook_of(event: EventName, function: Callable[..., Any]) -> EventHook:
    """The function as a hook; refuses one that cannot be called with the event."""
    if not callable(function):
        raise InvalidError(f"hook {function!r} is no function; use @app.on({event!r}) above one")
    name = getattr(function, "__name__", None) or type(function).__name__
    try:
        signature_of(function).bind(None)
    except TypeError as error:
        raise InvalidError(
            f"hook {name} is called as {name}(event): {error}; let it take the event alone"
        ) from error
    is_async = inspect.iscoroutinefunction(function)
    if is_async and event == "enqueue":
        raise InvalidError(
            f"hook {name} is a coroutine function, and plain code enqueues too, where nothing can"
            " be awaited; make it a plain function"
        )
    return EventHook(name, function, is_async)


def run_and_tell(app: "AppStore", work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine for plain code, then tell the hooks, in this thread, what it enqueued."""
    jobs: list[NewJob] = []
    before = ACCEPTED.set(jobs)
    try:
        answer = app.access.run(work)
    finally:
        ACCEPTED.reset(before)
    tell(app, jobs)
    return answer


def accepted(app: "AppStore", jobs: Sequence[NewJob], answers: Sequence[Enqueued]) -> None:
    """The store has accepted jobs: tell the hooks, now or when plain code has its answer."""
    fresh = created(jobs, answers)
    waiting = ACCEPTED.get()
    if waiting is None:
        tell(app, fresh)
    else:
        waiting.extend(fresh)


def tell(app: "AppStore", jobs: Sequence[NewJob]) -> None:
    """Call the hooks for each job; what one raises is logged."""
    for job in jobs:
        event = enqueued(job)
        for hook in app.event_hooks.get("enqueue", ()):
            try:
                hook.function(event)
            except Exception as error:  # noqa: BLE001 - the hook's failure, not the enqueue's
                log_hook_failure(hook, event, error)
