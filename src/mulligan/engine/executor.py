"""The executor: runs attempts in slots, and hands what becomes of their jobs to the committer."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mulligan.core.decide import beyond, decide
from mulligan.core.declared import completed, keyed
from mulligan.core.errors import StoreError
from mulligan.core.facts import Facts
from mulligan.core.isolation import isolated
from mulligan.core.job import Claim, Lease
from mulligan.core.outcome import Again, Done, Drained, Failed, Outcome, Result, Returned
from mulligan.core.settings import Settings
from mulligan.engine.breakers import Ending
from mulligan.engine.claim_runner import ClaimRunner, HeldClaim
from mulligan.engine.committer import Committer
from mulligan.engine.job_log import log_failure, log_start, log_success
from mulligan.engine.lane_depths import LaneDepths
from mulligan.engine.loop_watch import LoopWatch
from mulligan.engine.prefetch import Prefetch
from mulligan.engine.reporter import Reporter, ending_of
from mulligan.engine.result_gate import failed
from mulligan.engine.task_caller import Target, TaskCaller
from mulligan.engine.threads import Threads
from mulligan.engine.tracing import Tracing, attempt_traced
from mulligan.engine.transactional_sink import TransactionalSinks
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.engine.known_tasks import KnownTasks

log = logging.getLogger("mulligan.worker")
# So long is a suspect kept apart from others, at most, before and while it runs.
APART = 30.0


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
        watch: LoopWatch | None = None,
    ) -> None:
        self._tasks = tasks
        self._committer = committer
        self._reporter = reporter
        self._slots = settings.concurrency
        self._unknown_delay = settings.unknown_task_delay
        self._chance = chance
        self._holds_through = hold_through_backoff
        self._tracing = tracing
        self._caller = TaskCaller(store, settings, threads, watch)
        self._sinks = TransactionalSinks(store, self._caller, reporter)
        self._depths = LaneDepths(store, monotonic)
        self._held: dict[HeldClaim, None] = {}  # in the order of their claims
        spent = time.thread_time if monotonic is time.monotonic else monotonic
        self._runner = ClaimRunner(
            self._slots,
            self._attempt,
            self._spare,
            self._put_back,
            monotonic=monotonic,
            spent=spent,
        )
        self._prefetch = Prefetch(
            self._slots,
            lambda held: self._runner.start([held]),
            self._put_back,
            monotonic=monotonic,
        )
        self._monotonic = monotonic
        self._round: asyncio.Task[None] | None = None
        self._draining = False
        self._sitting: set[asyncio.Future[None]] = set()
        self._changed = asyncio.Event()
        self.breakers = reporter.breakers
        self.started = 0
        self.known_tasks: KnownTasks | None = None
        self.leave_to_others: Callable[[str, float], Awaitable[None]] = nothing_left

    @property
    def facts(self) -> Facts:
        """What the store told, and what this worker knows before it."""
        return self.breakers.facts

    @facts.setter
    def facts(self, facts: Facts) -> None:
        self.breakers.hear(facts)

    @property
    def demand(self) -> int:
        """How many more jobs to claim: for free slots, and some that soon will be.

        What may wait is fetched when half of it has started, not one by one.
        """
        if self._round is not None:
            return 0
        free, most = self._free, self._prefetch.room
        if free <= 0 and 2 * len(self._prefetch) > most:
            return 0
        return min(free + most - len(self._prefetch), self._runner.batch)

    @property
    def _free(self) -> int:
        """How many more attempts may start."""
        return self._runner.room - len(self._held) + len(self._prefetch) - len(self._sitting)

    @property
    def is_busy(self) -> bool:
        """Whether an attempt runs or is about to."""
        return bool(self._held)

    @property
    def holding(self) -> list[Lease]:
        """The leases of attempts that run or are about to; may be read from another thread."""
        return [held.claim.lease for held in list(self._held)]

    async def changed(self) -> None:
        """Wait until an attempt has ended."""
        self._changed.clear()
        await self._changed.wait()

    def start(self, claims: Sequence[Claim]) -> list[Claim]:
        """Begin attempts, in this order; their outcomes go to the committer. Returns which.

        If a worker died with some of them, these run without the others, which are given back.
        """
        claims = [self.completed(claim) for claim in claims if not self._put_under_key(claim)]
        self.breakers.claimed(claims)
        chosen = isolated(claims)
        if not chosen:
            free = max(0, self._free)
            held = self._hold(claims)
            self._prefetch.add(held[free:])
            self._runner.start(held[:free])
            return claims
        self.give_back([claim for claim in claims if claim not in chosen])
        self._round = asyncio.ensure_future(self._run_round(self._hold(chosen)))
        return chosen

    def completed(self, claim: Claim) -> Claim:
        """The claim with what its task declares, where the job came without."""
        target = self._tasks.get(claim.task)
        return claim if target is None else completed(claim, target.declared)

    def _put_under_key(self, claim: Claim) -> bool:
        """Whether it came without its task's concurrency key, and is given back to have it."""
        target = self._tasks.get(claim.task)
        outcome = None if target is None else keyed(claim, target.declared)
        if outcome is not None:
            self._committer.add(outcome, Ending(claim.queue, claim.worker_region))
        return outcome is not None

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Return jobs to their places, unstarted."""
        for claim in claims:
            self.breakers.left(claim)
            self._committer.add(Returned(claim.lease), Ending(claim.queue, claim.worker_region))

    def abandon(self, leases: Iterable[Lease]) -> None:
        """Stop attempts whose lease is lost or whose job was cancelled; nothing is committed."""
        gone = set(leases)
        for held in [held for held in self._held if held.claim.lease in gone] if gone else ():
            log.warning(
                "job %s: its lease is no longer held; stopping it",
                held.claim.id,
                extra={"job": held.claim.id},
            )
            held.cut()

    def drain(self) -> None:
        """Start nothing more: what waits for a slot, or for others to leave, is given back."""
        self._draining = True
        self._prefetch.clear()
        for sitting in self._sitting:
            sitting.cancel()
        self._changed.set()

    async def idle(self) -> None:
        """Wait until nothing runs."""
        while self._held:
            await self.changed()

    def stop(self) -> None:
        """Stop every attempt at once; their jobs will be reclaimed as lost."""
        for held in list(self._held):
            held.cut()

    def _spare(self) -> int:
        """How many more may start than there are slots; those claimed ahead do not start yet."""
        return len(self._held) - len(self._prefetch) + len(self._sitting) - self._slots

    def _hold(self, claims: Sequence[Claim]) -> list[HeldClaim]:
        held = [HeldClaim(claim) for claim in claims]
        self._held.update(dict.fromkeys(held))
        return held

    def _put_back(self, held: HeldClaim) -> None:
        self._held.pop(held, None)
        self.give_back([held.claim])

    async def _run_round(self, suspect: list[HeldClaim]) -> None:
        """Run these with nobody beside them: once the others have left, and before more come.

        Who has left or was given back is written as such: else it would be lost with them. Nothing
        is waited for without end: a job that runs for hours holds nobody up.
        """
        theirs = set(suspect)
        try:
            await self._until(lambda: self._draining or self._held.keys() <= theirs)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._committer.flushed(), APART)
            if self._draining:
                for held in suspect:
                    self._put_back(held)
                return
            self._runner.start(suspect)
            await self._until(lambda: not self._held.keys() & theirs)
        finally:
            self._round = None
            self._changed.set()

    async def _until(self, true: Callable[[], bool]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(APART):
                while not true():
                    await self.changed()

    async def _attempt(self, held: HeldClaim) -> None:
        """Every attempt that is not cut off on purpose ends with an outcome, whatever happens."""
        began = self._monotonic()
        try:
            if held.cut_off:
                return
            if self.breakers.forbids(held.claim):
                self._put_back(held)
                return
            self._tell_start(held.claim)
            if self._tracing is None:
                _, outcome = await self._run(held)
            else:
                with attempt_traced(self._tracing, held.claim) as ended:
                    result, outcome = await self._run(held)
                    ended(result, outcome)
            if isinstance(outcome, Done) and log.isEnabledFor(logging.DEBUG):
                log_success(held.claim, self._monotonic() - began)
            if self._holds_through and isinstance(outcome, Again):
                await self._sit_through(held, outcome.delay)
        finally:
            self._held.pop(held, None)
            self.breakers.left(held.claim)
            if held.task is not None:
                self._prefetch.learn(self._monotonic() - began)
            if self._prefetch and self._free > 0:
                self._prefetch.start_next()
            self._changed.set()

    def _tell_start(self, claim: Claim) -> None:
        self.started += 1
        self._reporter.started(claim)
        if claim.retry_count or log.isEnabledFor(logging.DEBUG):
            log_start(claim)

    async def _run(self, held: HeldClaim) -> tuple[Result, Outcome]:
        claim = held.claim
        target = self._tasks.get(claim.task)
        result: Result
        try:
            if (spent := beyond(claim)) is not None:
                result = spent
            elif target is None:
                result = await self._unknown(claim)
            elif target.transactional:
                result, written = await self._sinks.run(claim, target, self.facts)
                if written is not None:
                    return result, written
            else:
                result = await self._caller.result(claim, target)
        except asyncio.CancelledError as error:
            if held.cut_off:
                raise
            result = failed(error)  # the task was cancelled from inside, and that is its failure
        depth = 0
        if isinstance(result, Failed):
            log_failure(claim, result)
            try:
                depth = await self._depths.of(claim)
            except asyncio.CancelledError:
                if held.cut_off:
                    raise  # else it was meant for what the task did before it failed
        outcome = decide(claim, result, self.facts, self._chance.random(), depth)
        self._committer.add(outcome, ending_of(claim, result, outcome, self.facts))
        return result, outcome

    async def _unknown(self, claim: Claim) -> Result:
        """What becomes of a job whose task is not known here: another worker may know it."""
        if self.known_tasks is not None:
            left = None
            with contextlib.suppress(StoreError, OSError):
                left = await self.known_tasks.left_to_others(claim)
            if left is not None:
                rest = self._unknown_delay if isinstance(left, Drained) else 0.0
                await self.leave_to_others(claim.queue, rest)
                return left
        return self._caller.unknown(claim)

    async def _sit_through(self, held: HeldClaim, delay: float) -> None:
        """Keep the slot without the lease until the retry is due, or the worker drains."""
        self._held.pop(held, None)
        if self._draining:
            return
        sitting = asyncio.ensure_future(self._until_due(delay))
        self._sitting.add(sitting)
        try:
            await asyncio.wait([sitting])
        finally:
            sitting.cancel()
            self._sitting.discard(sitting)

    async def _until_due(self, delay: float) -> None:
        # Its delay counts from the commit: whoever asked sooner would be given fresh work instead.
        await self._committer.flushed()
        await asyncio.sleep(delay)


async def nothing_left(_queue: str, _rest: float) -> None:
    """A worker that claims nothing has nothing to leave to others."""
