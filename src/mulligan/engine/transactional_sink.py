"""Transactional sinks: sinks that run within the transaction that commits their job."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from math import inf
from typing import Any, cast

from mulligan.core.decide import decide
from mulligan.core.facts import Facts
from mulligan.core.job import Claim
from mulligan.core.outcome import Done, Failed, Result, Succeeded
from mulligan.core.signals import Fail, RetryAfter, Snooze
from mulligan.engine.committer import AWAY
from mulligan.engine.current import RUNNING
from mulligan.engine.job_log import job_fields
from mulligan.engine.loop_watch import Deadline, never_held
from mulligan.engine.reporter import Reporter, ending_of
from mulligan.engine.result_gate import AttemptTimeoutError, failed
from mulligan.engine.store_retry import StoreRetry
from mulligan.engine.task_caller import Target, TaskCaller, read_call
from mulligan.stores.contract import CommitsInTransaction, Store

log = logging.getLogger("mulligan.worker")
WRITTEN = Succeeded(None)


class WorkError(Exception):
    """Wraps what a sink raised, to tell it from what the store raises around it."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def guarded(
    function: Callable[..., Any],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
) -> Callable[[Any], Any]:
    """The call of a plain sink on a connection; what the sink raises becomes a WorkError."""
    # A store may run it in another thread, where `current_job` must work too.
    context = copy_context()

    def work(connection: Any) -> None:
        try:
            raise_signal(context.run(function, connection, *args, **kwargs))
        except BaseException as error:
            raise WorkError(error) from error

    return work


def guarded_coroutine(
    function: Callable[..., Any],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
    timeout: float | None = None,
    held: Callable[[], float] = never_held,
) -> Callable[[Any], Any]:
    """The call of a sink that is a coroutine function, with a timeout as by `Deadline`."""

    async def work(connection: Any) -> None:
        deadline = Deadline(inf if timeout is None else timeout, held)
        try:
            async with deadline:
                raise_signal(await deadline.watched(function(connection, *args, **kwargs)))
        except asyncio.CancelledError:
            raise
        except TimeoutError as error:
            late = AttemptTimeoutError(f"the attempt took longer than {timeout} s")
            raise WorkError(late if deadline.expired else error) from error
        except BaseException as error:
            raise WorkError(error) from error

    return work


def raise_signal(value: Any) -> None:
    """Raise a signal that was returned, for it means the same as one raised."""
    if isinstance(value, RetryAfter | Fail | Snooze):
        raise value


class TransactionalSinks:
    """Runs transactional sinks, each in one transaction with the commit of its job."""

    def __init__(self, store: Store, task_caller: TaskCaller, reporter: Reporter) -> None:
        self._store = store
        self._task_caller = task_caller
        self._reporter = reporter
        self._store_retry = StoreRetry("sink")

    async def run(self, claim: Claim, target: Target, facts: Facts) -> tuple[Result, Done | None]:
        """The result of the sink. A Done with it is written already: the store has answered it."""
        RUNNING.set(claim)
        outcome = decide(claim, WRITTEN, facts, 0.0)
        if not isinstance(outcome, Done):
            return Failed(
                "Flow", "what comes after the sink cannot be read", non_retryable=True
            ), None
        try:
            call = read_call(claim)
            if call.flow.gathers:
                await self._task_caller.gather(claim, call)
            args, kwargs = target.arguments(call)
            if target.is_async:
                held = self._task_caller.held
                work = guarded_coroutine(target.function, args, kwargs, call.timeout, held)
            else:
                work = guarded(target.function, args, kwargs)
            store = cast("CommitsInTransaction", self._store)
            verdict = await self._store_retry.call(lambda: store.commit_within(outcome, work), AWAY)
        except WorkError as error:
            return failed(error.cause), None
        except Exception as error:  # noqa: BLE001 - such as arguments that do not fit
            return failed(error), None
        ending = ending_of(claim, WRITTEN, outcome, facts)
        self._reporter.ended(ending)
        self._reporter.answered(ending, verdict)
        if verdict == "stale":
            log.warning(
                "job %s: its lease was no longer held; nothing was written",
                claim.id,
                extra=job_fields(claim),
            )
        return WRITTEN, outcome
