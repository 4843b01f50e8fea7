"""The executor: runs attempts in slots, and turns whatever happens into a result."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from mulligan.core.decide import SNOOZE_LIMIT, decide, policy_of
from mulligan.core.errors import StoreError
from mulligan.core.facts import Facts
from mulligan.core.job import Call, Claim, Lease, decode_call
from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import Again, Failed, Result, Snoozed, Succeeded
from mulligan.core.settings import TEXT_LIMIT, Settings
from mulligan.core.signals import Fail, RetryAfter, Snooze
from mulligan.engine.committer import Committer
from mulligan.engine.current import RUNNING
from mulligan.engine.threads import OutlivedError, Threads
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
encode_result = msgspec.json.Encoder().encode
REFUSED_LIMIT = 500
CODE_LIMIT = 100
DEPTH_AGE = 1.0
DEPTH_LIMIT = 10_000


class Target(Protocol):
    """A task, as the executor runs it."""

    function: Callable[..., Any]
    is_async: bool
    accept: Callable[[Any], bool] | None

    def arguments(self, call: Call) -> tuple[Iterable[Any], Mapping[str, Any]]:
        """The stored arguments as the function's own types; refuses what does not fit."""
        ...


class Executor:
    """Holds the slots of a worker. A slot is free again as soon as its outcome is decided."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Target],
        committer: Committer,
        settings: Settings,
        *,
        chance: random.Random,
        monotonic: Callable[[], float],
        threads: Threads | None,
        hold_through_backoff: bool = False,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._committer = committer
        self._settings = settings
        self._chance = chance
        self._monotonic = monotonic
        self._threads = threads
        self._hold = hold_through_backoff
        self._loop = asyncio.get_running_loop()
        self._running: dict[Lease, asyncio.Task[None]] = {}
        self._cut_off: set[Lease] = set()
        self._sitting = 0
        self._depths: dict[tuple[str, str], tuple[float, int]] = {}
        self._changed = asyncio.Event()
        self.facts = Facts()
        self.started = 0

    @property
    def free(self) -> int:
        """How many more attempts may start."""
        return self._settings.concurrency - len(self._running) - self._sitting

    @property
    def holding(self) -> list[Lease]:
        """The leases of attempts that are running; may be read from another thread."""
        return list(self._running)

    async def changed(self) -> None:
        """Wait until an attempt has ended."""
        self._changed.clear()
        await self._changed.wait()

    def start(self, claim: Claim) -> None:
        """Begin the attempt; its outcome goes to the committer."""
        self.started += 1
        if claim.retry_count or log.isEnabledFor(logging.DEBUG):
            log.log(
                logging.INFO if claim.retry_count else logging.DEBUG,
                "job %s: attempt %d starts from lane %s of %s",
                claim.id,
                claim.attempt,
                claim.lane.label,
                claim.queue,
            )
        self._running[claim.lease] = self._loop.create_task(self._attempt(claim))

    def abandon(self, leases: Iterable[Lease]) -> None:
        """Stop attempts whose lease is lost or whose job was cancelled; nothing is committed."""
        for lease in leases:
            attempt = self._running.get(lease)
            if attempt is not None:
                log.warning("job %s: its lease is no longer held; stopping it", lease.job)
                self._cut_off.add(lease)
                attempt.cancel()

    async def idle(self) -> None:
        """Wait until nothing runs."""
        while self._running:
            await self.changed()

    def stop(self) -> None:
        """Stop every attempt at once; their jobs will be seized as lost."""
        for lease, attempt in list(self._running.items()):
            self._cut_off.add(lease)
            attempt.cancel()

    async def _attempt(self, claim: Claim) -> None:
        """Every attempt that is not cut off on purpose ends with an outcome, whatever happens."""
        try:
            result = await self._result(claim)
            depth = 0
            if isinstance(result, Failed):
                log_failure(claim, result)
                depth = await self._depth(claim)
            outcome = decide(claim, result, self.facts, self._chance.random(), depth)
            self._committer.add(outcome)
            if self._hold and isinstance(outcome, Again):
                await self._sit_through(claim.lease, outcome.delay)
        finally:
            self._running.pop(claim.lease, None)
            self._cut_off.discard(claim.lease)
            self._changed.set()

    async def _sit_through(self, lease: Lease, delay: float) -> None:
        """Keep the slot without the lease, which is committed."""
        del self._running[lease]
        self._sitting += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self._sitting -= 1

    async def _result(self, claim: Claim) -> Result:
        target = self._tasks.get(claim.task)
        if target is None:
            return self._unknown(claim)
        RUNNING.set(claim)
        try:
            value = await self._value(target, decode_call(claim.body))
            return self._judge(target, value)
        except asyncio.CancelledError as error:
            if claim.lease in self._cut_off:
                raise
            return failed(error)  # the task was cancelled from inside, and that is its failure
        except BaseException as error:  # noqa: BLE001 - whatever a task raises is its failure
            return failed(error)

    def _unknown(self, claim: Claim) -> Result:
        """A task that a newer release knows is waited for; in the end it is a dead letter."""
        if claim.snoozes < SNOOZE_LIMIT:
            log.error("job %s: no task is named %r here; trying later", claim.id, claim.task)
            return Snoozed(self._settings.unknown_task_delay)
        message = f"no worker knows the task {claim.task!r}; deploy one that does, then replay"
        return Failed("UnknownTask", message, permanent=True)

    async def _value(self, target: Target, call: Call) -> Any:
        args, kwargs = target.arguments(call)
        function, limit = target.function, call.timeout
        timer: asyncio.Timeout | None = None
        try:
            if not target.is_async and self._threads is not None:
                return await self._threads.run(lambda: function(*args, **kwargs), limit)
            value = function(*args, **kwargs)
            if not target.is_async:
                return value
            if limit is None:
                return await value
            timer = asyncio.timeout(limit)
            async with timer:
                return await value
        except OutlivedError as error:
            raise AttemptTimeoutError(f"the attempt took longer than {limit:g} s") from error
        except TimeoutError as error:
            if timer is None or not timer.expired():
                raise
            raise AttemptTimeoutError(f"the attempt took longer than {limit:g} s") from error

    def _judge(self, target: Target, value: Any) -> Result:
        if isinstance(value, RetryAfter | Fail | Snooze):
            return failed(value)
        if target.accept is not None and not target.accept(value):
            refused = shown(value)
            return Failed("Refused", f"the result was refused: {refused}", refused=refused)
        encoded = None if value is None else encode_result(value)
        if encoded is not None and len(encoded) > self._settings.result_limit:
            return Failed(
                "ResultTooLarge",
                f"the result has {len(encoded)} bytes, more than the {self._settings.result_limit}"
                " allowed; store it elsewhere and return its address",
            )
        return Succeeded(encoded)

    async def _depth(self, claim: Claim) -> int:
        """The fresh work waiting in the job's queue and region, at most a second old."""
        policy = policy_of(claim.body)
        if policy is None or not policy.retry.needs_depth:
            return 0
        at, depth = self._depths.get((claim.queue, claim.region), (-DEPTH_AGE, 0))
        if self._monotonic() - at >= DEPTH_AGE:
            lane = Lane(claim.queue, claim.region, Priority.NORMAL)
            with contextlib.suppress(StoreError, OSError):  # then what was known last will do
                depth = await self._store.depth(lane, DEPTH_LIMIT)
                self._depths[claim.queue, claim.region] = (self._monotonic(), depth)
        return depth


class AttemptTimeoutError(Exception):
    """The attempt took longer than its task allows."""


def failed(error: BaseException) -> Failed | Snoozed:
    """What an exception, or a signal that was returned, says about the attempt."""
    match error:
        case Snooze():
            return Snoozed(error.delay)
        case RetryAfter():
            return Failed("RetryAfter", text(error), delay=error.delay)
        case Fail():
            return Failed("Fail", text(error), code=shown_code(error.code), permanent=True)
        case AttemptTimeoutError():
            return Failed("Timeout", text(error))
        case _:
            return Failed(
                type(error).__name__, text(error), shown_code(getattr(error, "code", None))
            )


def text(error: BaseException) -> str:
    """The error's message, shortened, safe to store and to print."""
    try:
        message = str(error) or repr(error)
    except Exception:  # noqa: BLE001 - a task's own exception class may be broken
        message = f"{type(error).__name__}, which cannot be shown"
    return clean(message)[:TEXT_LIMIT]


def shown_code(code: object) -> str | None:
    """An error's code as the history keeps it."""
    return clean(str(code))[:CODE_LIMIT] if isinstance(code, str | int) else None


def clean(words: str) -> str:
    """Text that every store can keep."""
    return words.encode("utf-8", "replace").decode().replace("\0", "")


def shown(value: Any) -> str:
    """A refused value as the history keeps it: shortened, and nowhere else."""
    try:
        whole = encode_result(value).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        whole = repr(value)
    return whole if len(whole) <= REFUSED_LIMIT else whole[: REFUSED_LIMIT - 1] + "…"


def log_failure(claim: Claim, result: Failed) -> None:
    """One line per failed attempt."""
    log.warning(
        "job %s: attempt %d of task %s failed: %s: %s",
        claim.id,
        claim.attempt,
        claim.task,
        result.type,
        result.message.replace("\n", "\\n"),
    )
