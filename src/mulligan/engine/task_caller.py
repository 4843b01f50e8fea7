"""Calls the task of a claim with its stored arguments, and returns the result."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any, Protocol

import msgspec

from mulligan.core.checks import ENVELOPE, is_too_deep, too_deep
from mulligan.core.declared import Declared
from mulligan.core.errors import UNREADABLE
from mulligan.core.job import Call, Claim, decode_call
from mulligan.core.outcome import Result
from mulligan.core.settings import Settings
from mulligan.core.signals import Fail
from mulligan.engine.current import RUNNING
from mulligan.engine.loop_watch import Deadline, LoopWatch, never_held
from mulligan.engine.result_gate import AttemptTimeoutError, check_result, failed
from mulligan.engine.store_retry import StoreRetry
from mulligan.engine.threads import OutlivedError, Threads
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
decode_json = msgspec.json.Decoder().decode


class Target(Protocol):
    """A task as the executor runs it."""

    function: Callable[..., Any]
    is_async: bool
    transactional: bool
    accept: Callable[[Any], bool] | None
    declared: Declared

    def arguments(self, call: Call) -> tuple[Iterable[Any], Mapping[str, Any]]:
        """The stored arguments converted to the function's types; raises if they do not fit."""
        ...


class TaskCaller:
    """Calls tasks: coroutines on the loop, plain functions in `threads`, or on the loop without."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        threads: Threads | None,
        watch: LoopWatch | None = None,
    ) -> None:
        self._store = store
        self._watch = watch
        self.held = never_held if watch is None else watch.held
        self._settings = settings
        self._threads = threads
        self._store_retry = StoreRetry("arrivals")

    async def result(self, claim: Claim, target: Target) -> Result:
        """The result of the attempt, whatever the task does. A cancellation is passed on."""
        RUNNING.set(claim)
        if self._watch is not None:
            self._watch.begin()
        try:
            call = read_call(claim)
            if call.flow.gathers:
                await self.gather(claim, call)
            args, kwargs = target.arguments(call)
            limit = call.timeout
            if target.is_async and limit is None:  # the most common case, without another coroutine
                value = await target.function(*args, **kwargs)
            else:
                value = await self._value(target, args, kwargs, limit)
            return check_result(target.accept, value, self._settings.result_limit)
        except asyncio.CancelledError:
            raise
        except OutlivedError:
            return failed(AttemptTimeoutError(f"the attempt took longer than {limit:g} s"))
        except BaseException as error:  # noqa: BLE001 - anything a task raises fails its attempt
            return failed(error)

    async def gather(self, claim: Claim, call: Call) -> None:
        """Put the results that a gathering job has waited for into its arguments."""
        arrived = await self._store_retry.call(lambda: self._store.arrivals(claim.id))
        found = arrived.values()
        call.args = [[None if each is None else decode_json(each) for each in found]]

    async def _value(
        self, target: Target, args: Iterable[Any], kwargs: Mapping[str, Any], limit: float | None
    ) -> Any:
        function = target.function
        if not target.is_async:
            if self._threads is None:
                return function(*args, **kwargs)
            return await self._threads.run(lambda: function(*args, **kwargs), limit)
        if limit is None:
            return await function(*args, **kwargs)
        deadline = Deadline(limit, self.held)
        try:
            async with deadline:
                return await deadline.watched(function(*args, **kwargs))
        except TimeoutError as error:
            if not deadline.expired:
                raise
            raise OutlivedError from error


def claim_in(frame: FrameType) -> Claim | None:
    """The claim whose task is called by this frame, if the frame is that of `TaskCaller.result`."""
    claim: Claim | None = None
    if frame.f_code is TaskCaller.result.__code__:
        claim = frame.f_locals["claim"]
    return claim


def read_call(claim: Claim) -> Call:
    """The stored call; one that cannot be read fails the job without retry."""
    if is_too_deep(claim.body, around=ENVELOPE):
        raise Fail(too_deep("an argument"), "unreadable")
    try:
        return decode_call(claim.body)
    except UNREADABLE as error:
        raise Fail(f"the job's body cannot be read: {error}", "unreadable") from error
