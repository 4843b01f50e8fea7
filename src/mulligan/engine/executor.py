"""The executor: runs attempts in slots, and turns whatever happens into a result."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast

import msgspec

from mulligan.core.decide import SNOOZE_LIMIT, decide
from mulligan.core.facts import Facts
from mulligan.core.job import Call, Claim, Lease, decode_call
from mulligan.core.outcome import Again, Done, Failed, Outcome, Result, Snoozed, Succeeded
from mulligan.core.settings import Settings
from mulligan.engine.committer import AWAY, Committer
from mulligan.engine.current import RUNNING
from mulligan.engine.depths import Depths
from mulligan.engine.judging import AttemptTimeoutError, failed, judge
from mulligan.engine.patience import Patience
from mulligan.engine.reporter import Reporter, ending_of
from mulligan.engine.sinking import WorkError, guarded, guarded_coroutine
from mulligan.engine.telling import about, log_failure, log_start
from mulligan.engine.threads import OutlivedError, Threads
from mulligan.engine.tracing import Tracing
from mulligan.stores.contract import Store, Transactional

log = logging.getLogger("mulligan.worker")
decode_json = msgspec.json.Decoder().decode


class Target(Protocol):
    """A task, as the executor runs it."""

    function: Callable[..., Any]
    is_async: bool
    transactional: bool
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
        reporter: Reporter,
        settings: Settings,
        *,
        chance: random.Random,
        monotonic: Callable[[], float],
        threads: Threads | None,
        hold_through_backoff: bool = False,
        tracing: Tracing | None = None,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._committer = committer
        self._reporter = reporter
        self._settings = settings
        self._chance = chance
        self._threads = threads
        self._hold = hold_through_backoff
        self._tracing = tracing
        self._loop = asyncio.get_running_loop()
        self._running: dict[Lease, asyncio.Task[None]] = {}
        self._cut_off: set[Lease] = set()
        self._sitting = 0
        self._depths = Depths(store, monotonic)
        self._changed = asyncio.Event()
        self._patience = Patience("arrivals")
        self._sinking = Patience("sink")
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
        self._reporter.started(claim)
        if claim.retry_count or log.isEnabledFor(logging.DEBUG):
            log_start(claim)
        self._running[claim.lease] = self._loop.create_task(self._attempt(claim))

    def abandon(self, leases: Iterable[Lease]) -> None:
        """Stop attempts whose lease is lost or whose job was cancelled; nothing is committed."""
        for lease in leases:
            attempt = self._running.get(lease)
            if attempt is not None:
                log.warning(
                    "job %s: its lease is no longer held; stopping it",
                    lease.job,
                    extra={"job": lease.job},
                )
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
            if self._tracing is None:
                _, outcome = await self._run(claim)
            else:
                with self._tracing.attempt(claim) as ended:
                    result, outcome = await self._run(claim)
                    ended(result, outcome)
            if self._hold and isinstance(outcome, Again):
                await self._sit_through(claim.lease, outcome.delay)
        finally:
            self._running.pop(claim.lease, None)
            self._cut_off.discard(claim.lease)
            self._changed.set()

    async def _run(self, claim: Claim) -> tuple[Result, Outcome]:
        target = self._tasks.get(claim.task)
        if target is not None and target.transactional:
            result = await self._within_commit(claim, target)
            if isinstance(result, Done):
                return Succeeded(None), result
        else:
            result = await self._result(claim, target)
        depth = 0
        if isinstance(result, Failed):
            log_failure(claim, result)
            depth = await self._depths.of(claim)
        outcome = decide(claim, result, self.facts, self._chance.random(), depth)
        self._committer.add(outcome, ending_of(claim, result, outcome, self.facts))
        return result, outcome

    async def _sit_through(self, lease: Lease, delay: float) -> None:
        """Keep the slot without the lease, which is committed."""
        del self._running[lease]
        self._sitting += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self._sitting -= 1

    async def _within_commit(self, claim: Claim, target: Target) -> Result | Done:
        """Run a transactional sink and commit it in one step; Done when that has been answered."""
        RUNNING.set(claim)
        outcome = decide(claim, Succeeded(None), self.facts, 0.0)
        if not isinstance(outcome, Done):
            return Failed("Flow", "what comes after the sink cannot be read", permanent=True)
        try:
            call = decode_call(claim.body)
            if call.flow.gathers:
                call.args = [await self._arrived(claim)]
            args, kwargs = target.arguments(call)
            wrap = guarded_coroutine if target.is_async else guarded
            work = wrap(target.function, args, kwargs, call.timeout)
            store = cast("Transactional", self._store)
            verdict = await self._sinking.insist(lambda: store.commit_within(outcome, work), AWAY)
        except asyncio.CancelledError as error:
            if claim.lease in self._cut_off:
                raise
            return failed(error)
        except WorkError as error:
            return failed(error.cause)
        except Exception as error:  # noqa: BLE001 - arguments that do not fit, perhaps
            return failed(error)
        ending = ending_of(claim, Succeeded(None), outcome, self.facts)
        self._reporter.answered(ending, verdict)
        if verdict == "stale":
            log.warning(
                "job %s: its lease was no longer held; nothing was written",
                claim.id,
                extra=about(claim),
            )
        return outcome

    async def _result(self, claim: Claim, target: Target | None) -> Result:
        if target is None:
            return self._unknown(claim)
        RUNNING.set(claim)
        try:
            call = decode_call(claim.body)
            if call.flow.gathers:
                call.args = [await self._arrived(claim)]
            value = await self._value(target, call)
            return judge(target.accept, value, self._settings.result_limit)
        except asyncio.CancelledError as error:
            if claim.lease in self._cut_off:
                raise
            return failed(error)  # the task was cancelled from inside, and that is its failure
        except BaseException as error:  # noqa: BLE001 - whatever a task raises is its failure
            return failed(error)

    async def _arrived(self, claim: Claim) -> list[Any]:
        """The results that a gathering job is given."""
        arrived = await self._patience.insist(lambda: self._store.arrivals(claim.id))
        return [None if each is None else decode_json(each) for each in arrived.values()]

    def _unknown(self, claim: Claim) -> Result:
        """A task that a newer release knows is waited for; in the end it is a dead letter."""
        if claim.snoozes < SNOOZE_LIMIT:
            log.error(
                "job %s: no task is named %r here; trying later",
                claim.id,
                claim.task,
                extra=about(claim),
            )
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
