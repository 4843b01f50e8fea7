"""The executor: runs attempts, and hands what becomes of their jobs to the committer."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mulligan.core.decide import beyond, decide, policy_of, with_use
from mulligan.core.declared import completed, limited
from mulligan.core.errors import StoreError
from mulligan.core.job import Claim
from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import Again, Dead, Done, Failed, Outcome, Result, Returned
from mulligan.core.settings import Settings
from mulligan.core.signals import LeaseLost
from mulligan.engine.breakers import Ending
from mulligan.engine.claim_runner import HeldClaim
from mulligan.engine.committer import Committer
from mulligan.engine.events import Events
from mulligan.engine.job_log import job_fields, log_failure, log_start, log_success
from mulligan.engine.known_tasks import UnknownTasks
from mulligan.engine.recorder import NOTHING_SPENT, Recorder
from mulligan.engine.reporter import Reporter, ending_of
from mulligan.engine.result_gate import Raised, asked, failed
from mulligan.engine.slots import Slots
from mulligan.engine.task_caller import Target, TaskCaller, TransactionalSinks, predicate_of
from mulligan.engine.tracing import Tracing, attempt_traced
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.engine.pool_room import PoolRoom
    from mulligan.engine.process_pool import ProcessPool

log = logging.getLogger("mulligan.worker")
# How old a known depth may be.
DEPTH_AGE = 1.0
DEPTH_LIMIT = 10_000


class Executor:
    """Completes claims, has `slots` admit them, runs each attempt and decides its outcome."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Target],
        committer: Committer,
        reporter: Reporter,
        settings: Settings,
        *,
        events: Events,
        task_caller: TaskCaller,
        recorder: Recorder,
        pool: "ProcessPool | None" = None,
        unknown_tasks: UnknownTasks,
        chance: random.Random,
        monotonic: Callable[[], float],
        hold_through_backoff: bool = False,
        tracing: Tracing | None = None,
    ) -> None:
        self._tasks = tasks
        self._committer = committer
        self._reporter = reporter
        self._breakers = reporter.breakers
        self._facts = reporter.breakers.facts
        self._events = events
        self._task_caller = task_caller
        self._recorder = recorder
        self._pool = pool
        self._unknown_tasks = unknown_tasks
        self._sinks = TransactionalSinks(store, task_caller, reporter, events, monotonic)
        self._depths = LaneDepths(store, monotonic)
        self._chance = chance
        self._longest_wait = settings.retry_after_limit
        self._monotonic = monotonic
        self._holds_through = hold_through_backoff
        self._tracing = tracing
        self.slots = Slots(
            settings.concurrency,
            attempt=self._attempt,
            give_back=self.give_back,
            flushed=committer.flushed,
            monotonic=monotonic,
        )
        self.started = 0

    def start(self, claims: Sequence[Claim]) -> list[Claim]:
        """Begin attempts in this order; their outcomes go to the committer. Returns which.

        A crash suspect runs without the others, which are given back.
        """
        claims = [claim for each in claims if (claim := self._as_declared(each)) is not None]
        self._breakers.claimed(claims)
        return self.slots.admit(claims)

    @property
    def held_for_pool(self) -> int:
        """How many claims are held that run in child processes, or are about to."""
        return self.slots.count(lambda claim: self._room_for(claim) is not None)

    def completed(self, claim: Claim) -> Claim:
        """The claim with what its task declares, where the job came without."""
        target = self._tasks.get(claim.task)
        return claim if target is None else completed(claim, target.declared)

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Return jobs to their lanes, unstarted."""
        for claim in claims:
            self._breakers.left(claim)
            self._committer.add(Returned(claim.lease), Ending(claim.queue, claim.worker_region))

    def _as_declared(self, claim: Claim) -> Claim | None:
        """The completed claim; None if the job is given back to get its task's limits."""
        if not claim.is_foreign:
            return claim
        target = self._tasks.get(claim.task)
        outcome = None if target is None else limited(claim, target.declared)
        if outcome is None:
            return self.completed(claim)
        self._committer.add(outcome, Ending(claim.queue, claim.worker_region))
        return None

    async def _attempt(self, held: HeldClaim) -> None:
        """Run an attempt that has a slot. Unless it is cut off, it ends with an outcome."""
        began = self._monotonic()
        room = None if self._pool is None else self._room_for(held.claim)
        entered = False
        try:
            if held.cut_off:
                return
            entered = room is not None and await room.enter(held.claim.queue)
            if room is not None:
                began = self._monotonic()
            if self._breakers.forbids(held.claim) or entered != (room is not None):
                self.slots.put_back(held)
                return
            self._note_start(held.claim)
            if self._tracing is None:
                result, outcome = await self._run(held, began)
            else:
                with attempt_traced(self._tracing, held.claim) as ended:
                    result, outcome = await self._run(held, began)
                    ended(result, outcome)
            if held.claim.task in self._tasks:
                self._reporter.ran(held.claim, result, outcome, self._monotonic() - began)
            if isinstance(outcome, Done) and log.isEnabledFor(logging.DEBUG):
                log_success(held.claim, self._monotonic() - began)
            if self._holds_through and isinstance(outcome, Again):
                await self.slots.keep_through_backoff(held, outcome.delay)
        except LeaseLost as error:
            log.warning("%s; the attempt ends", error, extra=job_fields(held.claim))
        finally:
            self._end(held, began, room, entered=entered)

    def _end(
        self, held: HeldClaim, began: float, room: "PoolRoom | None", *, entered: bool
    ) -> None:
        """The attempt is over, or was never started: free its slot and its room in the pool."""
        if self._recorder.attempts:
            self._recorder.forget(held.claim)
        self._breakers.left(held.claim)
        self.slots.release(held, began, learn=room is None)
        if room is not None and entered:
            room.leave(self._monotonic() - began)

    def _room_for(self, claim: Claim) -> "PoolRoom | None":
        """The room that the attempt needs in the process pool; None if it runs elsewhere."""
        if self._pool is None:
            return None
        target = self._tasks.get(claim.task)
        return None if target is None or target.runs.pool is None else self._pool.room

    def _note_start(self, claim: Claim) -> None:
        self.started += 1
        self._reporter.started(claim)
        if self._events.hooks:
            self._events.started(claim)
        if claim.retry_count or log.isEnabledFor(logging.DEBUG):
            log_start(claim)

    async def _run(self, held: HeldClaim, began: float) -> tuple[Result, Outcome]:
        """Get the result, decide the outcome, and hand it to the committer."""
        claim = held.claim
        target = self._tasks.get(claim.task)
        result: Result
        try:
            if (spent := beyond(claim)) is not None:
                result = spent
            elif target is None:
                result = await self._unknown_tasks.result(claim)
            elif target.transactional:
                result, written = await self._sinks.run(claim, target, self._facts.current)
                if written is not None:
                    return result, written
            else:
                caller = self._task_caller if target.runs.pool is None else self._pool
                result = await (caller or self._task_caller).result(claim, target)
        except asyncio.CancelledError as error:
            if held.cut_off:
                raise
            result = failed(error)  # the task cancelled itself, which is a failure
        depth, charges = 0, NOTHING_SPENT
        if isinstance(result, Failed) or self._recorder.attempts:
            charges = self._recorder.spent_by(claim)
            try:
                depth = await self._recorded(claim, result)
            except asyncio.CancelledError:
                if held.cut_off:
                    raise  # otherwise the task caused it before it failed
        return result, self._decide(claim, result, depth, charges, began)

    async def _recorded(self, claim: Claim, result: Result) -> int:
        """Have what the attempt noted stored; returns the depth of its lane, if it failed."""
        await self._recorder.finish(claim)
        return await self._depths.of(claim) if isinstance(result, Failed) else 0

    def _decide(
        self, claim: Claim, result: Result, depth: int, spent: Mapping[str, int], began: float
    ) -> Outcome:
        """Decide the outcome, log it if it is a failure, and hand it to the committer."""
        facts = self._facts.current
        error = None
        if isinstance(result, Failed):
            target = self._tasks.get(claim.task)
            limited = replace(result, least_delay=min(result.least_delay, self._longest_wait))
            result = asked(limited, None if target is None else predicate_of(target, claim))
            error = result.error if isinstance(result, Raised) else None
        outcome = decide(claim, result, facts, self._chance.random(), depth)
        if spent or isinstance(result, Failed):
            outcome = with_use(outcome, result, spent)
        if not isinstance(outcome, Done) and isinstance(outcome, (Again, Dead)):
            log_failure(claim, outcome, error)
        event = None
        if self._events.hooks:
            event = self._events.of_outcome(claim, outcome, self._monotonic() - began, error)
        self._committer.add(outcome, ending_of(claim, result, outcome, facts), event)
        return outcome


class LaneDepths:
    """The depths of fresh lanes, for adaptive backoff.

    They are at most DEPTH_AGE seconds old while the store answers.
    """

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    async def of(self, claim: Claim) -> int:
        """How many fresh jobs wait in its queue and region; 0 if its backoff does not need it."""
        policy = policy_of(claim.body)
        if policy is None or not policy.retry.needs_depth:
            return 0
        at, depth = self._known.get((claim.queue, claim.region), (-DEPTH_AGE, 0))
        if self._monotonic() - at >= DEPTH_AGE:
            lane = Lane(claim.queue, claim.region, Priority.NORMAL)
            with contextlib.suppress(StoreError, OSError):  # the last known depth will do
                depth = await self._store.depth(lane, DEPTH_LIMIT)
                self._known[claim.queue, claim.region] = (self._monotonic(), depth)
        return depth
