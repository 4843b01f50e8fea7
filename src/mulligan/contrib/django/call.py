"""How a worker calls a task of Django's: with its context, signals and usable connections."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NoReturn

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections

from mulligan import JobEvent, JobFailedError, Mulligan
from mulligan.contrib.django import results
from mulligan.contrib.django.compat import base, exceptions, normalize_json, signals
from mulligan.contrib.django.virtual_time import back_on_the_loop, off_the_loop
from mulligan.core.job import Claim, never_started
from mulligan.engine.current import RUNNING


class Caller:
    """Calls the tasks of one backend in a worker, and sends Django's signals about them."""

    def __init__(self, app: Mulligan, alias: str, sender: type) -> None:
        self._app = app
        self._alias = alias
        self._sender = sender

    def job_of(self, task: Any) -> Callable[..., Any]:
        """The function that workers run: plain for a plain one, a coroutine for a coroutine.

        Arguments and results are JSON, as Django has them, whatever the annotations say.
        """

        async def acall(*args: Any, **kwargs: Any) -> Any:
            if self._is_testing:  # in virtual time there are no other threads
                with off_the_loop():
                    begun = self._begin(task)
                return normalize_json(await task.func(*begun, *args, **kwargs))
            async with connections_of_a_coroutine():
                begun = await sync_to_async(self._begin)(task)
                return normalize_json(await task.func(*begun, *args, **kwargs))

        def call(*args: Any, **kwargs: Any) -> Any:
            with connections_of_a_thread(is_testing=self._is_testing):
                return normalize_json(task.func(*self._begin(task), *args, **kwargs))

        made = acall if inspect.iscoroutinefunction(task.func) else call
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(made, name, getattr(task.func, name))
        made.__annotations__ = {}
        setattr(made, "__signature__", plain_signature(task))  # noqa: B010 - no type has it
        return made

    def _begin(self, task: Any) -> list[Any]:
        """Send that it starts; returns what goes before the arguments."""
        claim = RUNNING.get()
        result = self._result(task, claim)
        signals.task_started.send(sender=self._sender, task_result=result)
        return [base.TaskContext(task_result=result)] if task.takes_context else []

    def _result(self, task: Any, claim: Claim) -> Any:
        fresh = never_started(claim.retry_count, claim.snoozes, claim.replay)
        if fresh and not task.takes_context:
            return results.started(self._alias, task, claim)
        return self._read(claim.id)

    def _read(self, job: str) -> Any:
        with back_on_the_loop():
            return self._app.run(
                lambda: self._app.access.acall(lambda store: results.read(store, self._alias, job))
            )

    def tell_finished(self, event: JobEvent) -> None:
        """Send that a job has ended, once that is stored; while its exception is handled, if any.

        So that receivers find it, as Django's own logger does.
        """
        with connections_of_a_thread(is_testing=self._is_testing):
            try:
                result = self._read(event.id)
            except exceptions.TaskResultDoesNotExist:
                return  # a task that is none of Django's, or a job that nobody keeps
            if event.name == "success":
                self._send_finished(result, results.Status.SUCCESSFUL)
                return
            said = f"{event.error_type}: {event.error_message}"
            try:
                reraise(event.exception or JobFailedError(said, []))
            except BaseException:  # noqa: BLE001 - whatever the task has raised
                self._send_finished(result, results.Status.FAILED)

    def _send_finished(self, result: Any, status: Any) -> None:
        object.__setattr__(result, "status", status)
        signals.task_finished.send(sender=self._sender, task_result=result)

    @property
    def _is_testing(self) -> bool:
        return not self._app.access.joins_transactions


def reraise(error: BaseException) -> NoReturn:
    """Raise it, so that it is the one that is handled."""
    raise error


def plain_signature(task: Any) -> inspect.Signature:
    """What a call of the task takes, without types, and without the context."""
    whole = inspect.signature(task.func)
    taken = list(whole.parameters.values())[int(task.takes_context) :]
    return inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in taken])


@contextmanager
def connections_of_a_thread(*, is_testing: bool) -> Iterator[None]:
    """Drop connections that are too old or broken, before and after; others are tried before use.

    A request of Django's begins and ends alike. In virtual time they are those of the test.
    """
    if is_testing:
        with off_the_loop():
            yield
        return
    refresh()
    try:
        yield
    finally:
        refresh()


@asynccontextmanager
async def connections_of_a_coroutine() -> AsyncIterator[None]:
    """A thread for the plain code that the coroutine awaits, as a request has one under ASGI."""
    async with ThreadSensitiveContext():
        try:
            yield
        finally:
            await sync_to_async(connections.close_all)()


def refresh() -> None:
    """Close what is broken or too old in this thread, and have the rest checked before its use."""
    for connection in connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()
        connection.health_check_enabled = True
