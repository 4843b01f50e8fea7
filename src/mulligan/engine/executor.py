"""The executor: runs attempts, and has the decider say what becomes of their jobs."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mulligan.core.decide import beyond
from mulligan.core.job import Claim
from mulligan.core.outcome import Again, Done, Failed, Outcome, Result, Returned
from mulligan.core.signals import LeaseLost
from mulligan.engine.breakers import Ending
from mulligan.engine.claim_runner import HeldClaim
from mulligan.engine.committer import Committer
from mulligan.engine.decider import Decider, LaneDepths
from mulligan.engine.events import Events
from mulligan.engine.job_log import job_fields, log_start, log_success
from mulligan.engine.known_tasks import UnknownTasks
from mulligan.engine.recorder import NOTHING_SPENT, Recorder
from mulligan.engine.reporter import Reporter
from mulligan.engine.result_gate import failed
from mulligan.engine.slots import Slots
from mulligan.engine.task_caller import Target, TaskCaller, TransactionalSinks
from mulligan.engine.tracing import Tracing, attempt_traced

if TYPE_CHECKING:
    from mulligan.engine.pool_room import PoolRoom
    from mulligan.engine.process_pool import ProcessPool

log = logging.getLogger("mulligan.worker")


class Executor:
    """Completes claims, has `slots` admit them, runs each attempt and decides its outcome."""

    def __init__(
        self,
        tasks: Mapping[str, Target],
        committer: Committer,
        reporter: Reporter,
        concurrency: int,
        *,
        decider: Decider,
        depths: LaneDepths,
        events: Events,
        task_caller: TaskCaller,
        sinks: TransactionalSinks,
        recorder: Recorder,
        pool: "ProcessPool | None" = None,
        unknown_tasks: UnknownTasks,
        monotonic: Callable[[], float],
        hold_through_backoff: bool = False,
        tracing: Tracing | None = None,
    ) -> None:
        self._tasks = tasks
        self._committer = committer
        self._reporter = reporter
        self._breakers = reporter.breakers
        self._decider = decider
        self._depths = depths
        self._events = events
        self._task_caller = task_caller
        self._sinks = sinks
        self._recorder = recorder
        self._pool = pool
        self._unknown_tasks = unknown_tasks
        self._monotonic = monotonic
        self._holds_through = hold_through_backoff
        self._tracing = tracing
        self.slots = Slots(
            concurrency,
            attempt=self._attempt,
            give_back=self.give_back,
            flushed=committer.flushed,
            lost=reporter.lost_leases.add,
            monotonic=monotonic,
        )
        self.started = 0

    def start(self, claims: Sequence[Claim]) -> list[Claim]:
        """Begin attempts in this order; their outcomes go to the committer. Returns which.

        A crash suspect runs without the others, which are given back.
        """
        claims = [
            claim for each in claims if (claim := self._decider.as_declared(each)) is not None
        ]
        self._breakers.claimed(claims)
        return self.slots.admit(claims)

    @property
    def held_for_pool(self) -> int:
        """How many claims are held that run in child processes, or are about to."""
        return self.slots.count(lambda claim: self._room_for(claim) is not None)

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Return jobs to their lanes, unstarted."""
        for claim in claims:
            self._breakers.left(claim)
            self._committer.add(Returned(claim.lease), Ending(claim.queue, claim.worker_region))

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
        except LeaseLost:
            claim = held.claim
            self._reporter.lost_leases.add(claim.lease, "the attempt ends", job_fields(claim))
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
                result, written = await self._sinks.run(claim, target, self._breakers.facts.current)
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
        return result, self._decider.ended(claim, result, depth, charges, began)

    async def _recorded(self, claim: Claim, result: Result) -> int:
        """Have what the attempt noted stored; returns the depth of its lane, if it failed."""
        await self._recorder.finish(claim)
        return await self._depths.of(claim) if isinstance(result, Failed) else 0
