"""Calls the task of a claim with its stored arguments, and returns the result.

A transactional sink is called within the transaction that commits its job.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from functools import partial
from math import inf
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from mulligan.core.checks import ENVELOPE, is_too_deep, too_deep
from mulligan.core.counts import SINK_AGAIN
from mulligan.core.decide import decide
from mulligan.core.declared import Declared
from mulligan.core.errors import UNREADABLE
from mulligan.core.facts import Facts
from mulligan.core.gather import failure_in, results_of
from mulligan.core.job import Call, Claim, decode_call
from mulligan.core.outcome import Done, Failed, Result, Succeeded
from mulligan.core.runs import Runs
from mulligan.core.settings import Settings
from mulligan.core.signals import (
    Fail,
    LeaseLost,
    RetryAfter,
    Snooze,
    SoftTimeout,
    UnreadableJob,
)
from mulligan.engine.attempt_records import Records
from mulligan.engine.committer import AWAY
from mulligan.engine.current import CALL, RECORDS, RUNNING
from mulligan.engine.events import Events
from mulligan.engine.job_log import job_fields
from mulligan.engine.loop_watch import Deadline, LoopWatch, SoftDeadline, never_held
from mulligan.engine.loops import StoreRetry
from mulligan.engine.reporter import Reporter, ending_of
from mulligan.engine.result_gate import check_result, failed, timed_out
from mulligan.engine.threads import OutlivedError
from mulligan.engine.unawaited import AWAIT_IT, unawaited
from mulligan.stores.contract import CommitsInTransaction, Store
from mulligan.stores.for_attempts import HasArrivals, arrivals_for_attempt

if TYPE_CHECKING:
    from mulligan.engine.middleware import Around

decode_json = msgspec.json.Decoder().decode
WRITTEN = Succeeded(None)


def decode_arrival(value: bytes) -> Any:
    """A result that has arrived, or the failure of a member."""
    return failure_in(value) or decode_json(value)


class Target(Protocol):
    """A task as the executor runs it."""

    function: Callable[..., Any]
    is_async: bool
    transactional: bool
    accept: Callable[[Any], bool] | None
    declared: Declared
    retry_if: Callable[[Any], bool] | None
    runs: Runs
    around: "Around | None"
    # Writes a result as JSON.
    encode: Callable[[Any], bytes]

    def arguments(self, call: Call) -> tuple[Iterable[Any], Mapping[str, Any]]:
        """The stored arguments converted to the function's types; raises if they do not fit."""
        ...


class PlainCalls(Protocol):
    """Where plain functions are called: in threads."""

    async def run(self, call: Callable[[], Any], timeout: float | None) -> Any:  # noqa: ASYNC109
        """Call it; raise OutlivedError when it has taken too long."""
        ...


class TaskCaller:
    """Calls tasks: coroutines on the loop, plain functions in `threads`, or on the loop without."""

    def __init__(
        self,
        store: HasArrivals,
        settings: Settings,
        threads: PlainCalls | None,
        watch: LoopWatch | None = None,
        *,
        records: Records,
    ) -> None:
        self._store = store
        self._watch = watch
        self._records = records
        self.held = never_held if watch is None else watch.held
        self._settings = settings
        self._threads = threads
        self._store_retry = StoreRetry("arrivals")

    async def result(self, claim: Claim, target: Target) -> Result:
        """The result of the attempt, whatever the task does.

        A cancellation is passed on, and that the lease was lost.
        """
        RUNNING.set(claim)
        RECORDS.set(self._records)
        if self._watch is not None:
            self._watch.begin()
        try:
            call = read_call(claim)
            if call.flow.gathers:
                await self.gather(claim, call)
            args, kwargs = target.arguments(call)
            limit = call.timeout
            soft = target.runs.soft_timeout
            if target.is_async and limit is None and soft is None:
                # the most common cases, without another coroutine
                value = await target.function(*args, **kwargs)
            elif self._threads is not None and target.around is None and not target.is_async:
                plain = partial(target.function, *args, **kwargs)
                value = await self._threads.run(plain, limit)
            else:
                value = await self._value(target, args, kwargs, limit)
            return check_result(target.accept, value, self._settings.result_limit, target.encode)
        except SoftTimeout as error:  # before cancellations: a coroutine's is one of them
            return failed(error)
        except (asyncio.CancelledError, LeaseLost):
            raise
        except OutlivedError as error:
            return failed(timed_out(limit, error))
        except BaseException as error:  # noqa: BLE001 - anything a task raises fails its attempt
            return failed(error)

    async def gather(self, claim: Claim, call: Call) -> None:
        """Add the results that a gathering job has waited for to its arguments."""
        if call.flow.ignores:
            return
        arrived = await self._store_retry.call(lambda: arrivals_for_attempt(self._store, claim.id))
        found = results_of(arrived).values()
        call.args.append([None if each is None else decode_arrival(each) for each in found])

    async def _value(
        self, target: Target, args: Iterable[Any], kwargs: Mapping[str, Any], limit: float | None
    ) -> Any:
        function = target.function
        if not target.is_async:
            plain = partial(self._plain_value, partial(function, *args, **kwargs), limit)
            return await (plain() if target.around is None else target.around(plain, args, kwargs))
        work, soft = function(*args, **kwargs), target.runs.soft_timeout
        if soft is not None:
            work = SoftDeadline(soft, self.held).run(work)
        if limit is None:
            return await work
        deadline = Deadline(limit, self.held)
        try:
            async with deadline:
                return await deadline.watched(work)
        except TimeoutError as error:
            if not deadline.expired:
                raise
            raise OutlivedError from error

    async def _plain_value(self, call: Callable[[], Any], limit: float | None) -> Any:
        if self._threads is None:
            return call()
        return await self._threads.run(call, limit)


def predicate_of(target: Target, claim: Claim) -> Callable[[Any], bool] | None:
    """The predicate of the task's retry policy; None if the job carries another policy."""
    own = target.declared.retry
    return target.retry_if if own is not None and bytes(own) in claim.body else None


def claim_in(frame: FrameType) -> Claim | None:
    """The claim whose task is called by this frame, if the frame is that of `TaskCaller.result`."""
    claim: Claim | None = None
    if frame.f_code is TaskCaller.result.__code__:
        claim = frame.f_locals["claim"]
    return claim


def read_call(claim: Claim) -> Call:
    """The stored call; one that cannot be read fails the job without retry."""
    if is_too_deep(claim.body, around=ENVELOPE):
        raise UnreadableJob(too_deep("an argument"), "unreadable")
    try:
        return decode_call(claim.body)
    except UNREADABLE as error:
        raise UnreadableJob(f"the job's body cannot be read: {error}", "unreadable") from error


class WorkError(Exception):
    """Wraps what a sink raised, to tell it from what the store raises around it."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class SinkCalls:
    """Counts the calls of a sink in one attempt, for `current_job().call`."""

    def __init__(self) -> None:
        self.made = 0

    def begin(self) -> None:
        """Count the call that begins in this context."""
        self.made += 1
        CALL.set(self.made)


def guarded(
    function: Callable[..., Any],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
    *,
    calls: SinkCalls,
) -> Callable[[Any], Any]:
    """The call of a plain sink on a connection; what the sink raises becomes a WorkError."""
    # A store may run it in another thread, where `current_job` must work too.
    context = copy_context()

    def work(connection: Any) -> None:
        context.run(calls.begin)
        try:
            check_sink(context.run(function, connection, *args, **kwargs))
        except BaseException as error:
            raise WorkError(error) from error

    return work


def guarded_coroutine(
    function: Callable[..., Any],
    args: Iterable[Any],
    kwargs: Mapping[str, Any],
    timeout: float | None = None,
    held: Callable[[], float] = never_held,
    *,
    calls: SinkCalls,
) -> Callable[[Any], Any]:
    """The call of a sink that is a coroutine function, with a timeout as by `Deadline`."""

    async def work(connection: Any) -> None:
        calls.begin()
        deadline = Deadline(inf if timeout is None else timeout, held)
        try:
            async with deadline:
                check_sink(await deadline.watched(function(connection, *args, **kwargs)))
        except asyncio.CancelledError:
            raise
        except TimeoutError as error:
            raise WorkError(timed_out(timeout, error) if deadline.expired else error) from error
        except BaseException as error:
            raise WorkError(error) from error

    return work


def check_sink(value: Any) -> None:
    """Raise a signal that a sink returned, or Fail for a coroutine: it has not run."""
    if isinstance(value, RetryAfter | Fail | Snooze):
        raise value
    if (left := unawaited(value)) is not None:
        raise Fail(f"the sink returned {left}; {AWAIT_IT}; then replay the job")


class TransactionalSinks:
    """Runs transactional sinks, each in one transaction with the commit of its job."""

    def __init__(
        self,
        store: Store,
        task_caller: TaskCaller,
        reporter: Reporter,
        events: Events,
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._task_caller = task_caller
        self._reporter = reporter
        self._events = events
        self._monotonic = monotonic
        self._store_retry = StoreRetry("sink")

    async def run(self, claim: Claim, target: Target, facts: Facts) -> tuple[Result, Done | None]:
        """The result of the sink. A Done with it is written already: the store has answered it."""
        RUNNING.set(claim)
        began, calls = self._monotonic(), SinkCalls()
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
                work = guarded_coroutine(
                    target.function, args, kwargs, call.timeout, held, calls=calls
                )
            else:
                work = guarded(target.function, args, kwargs, calls=calls)
            store = cast("CommitsInTransaction", self._store)
            verdict = await self._store_retry.call(lambda: store.commit_within(outcome, work), AWAY)
        except WorkError as error:
            return failed(error.cause), None
        except Exception as error:  # noqa: BLE001 - such as arguments that do not fit
            return failed(error), None
        finally:
            for _ in range(calls.made - 1):
                self._reporter.count(claim.queue, claim.worker_region, SINK_AGAIN)
        ending = ending_of(claim, WRITTEN, outcome, facts)
        self._reporter.ended(ending)
        self._reporter.answered(ending, verdict)
        event = self._events.of_outcome(claim, outcome, self._monotonic() - began)
        self._events.answered(outcome, event, verdict)
        if verdict == "stale":
            what = "nothing that the sink wrote was kept"
            self._reporter.lost_leases.add(claim.lease, what, job_fields(claim))
        return WRITTEN, outcome
