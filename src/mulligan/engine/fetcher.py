"""The fetcher: claims as many jobs as the slots have room for, and sleeps until there are more."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mulligan.core.errors import StoreError
from mulligan.core.fairness import NO_BOUND, Bound
from mulligan.core.job import Claim
from mulligan.core.plan import ClaimPlan
from mulligan.core.settings import BATCH_LIMIT
from mulligan.core.stats import due_lanes
from mulligan.core.worker import Worker
from mulligan.engine.breakers import Breakers
from mulligan.engine.claim_planner import ClaimPlanner
from mulligan.engine.committer import Committer
from mulligan.engine.executor import Executor
from mulligan.engine.loops import StoreRetry, cancel_tasks
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.engine.pool_room import PoolRoom

# A wake-up that was lost costs at most this long.
LONGEST_SLEEP = 5.0
STOP_WITHIN = 5.0
# A job that may start and was not given is being claimed by another worker: it gets this long.
OTHERS_CLAIM = 0.02
# A claim that took longer was held up by more than the round trip to the store.
LONGEST_WAY = 0.005
# Timers of event loops are exact to a millisecond: a shorter sleep needs no wake-up.
TIMER = 0.001
BRIEF = 2 * TIMER
# How long to wait until the store has a plan that leaves more to other workers.
REPLAN_WITHIN = 1.0
# With more outcomes than this unwritten, no more jobs are claimed.
BACKLOG_LIMIT = 4 * BATCH_LIMIT


class Fetcher:
    """Claims jobs for the executor, from the worker's queues in turn."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        executor: Executor,
        committer: Committer,
        breakers: Breakers,
        *,
        monotonic: Callable[[], float],
        room: "PoolRoom | None" = None,
    ) -> None:
        self._store = store
        self._room = room
        self._outdated = False  # whether more may be claimed than the last plan said
        self._limited = False  # whether the last claim took all that the room allowed
        self._worker = worker
        self._executor = executor
        self._slots = executor.slots
        self._breakers = breakers
        self._committer = committer
        self._monotonic = monotonic
        self._planner = ClaimPlanner(worker, monotonic)
        self._store_retry = StoreRetry("claim")
        self._task: asyncio.Task[None] | None = None
        self._resting = False
        self._stopping = False
        self._expected = False  # whether the store wakes us for new jobs
        self.asking = False
        self.answered = 0
        self._ended = asyncio.Event()
        # By queue: set when the store has a plan that leaves more of the queue to others.
        self._replans: dict[str, asyncio.Event] = {}
        self._interrupted = False

    @property
    def asked(self) -> int:
        """How many claims were sent; a claim that is being retried counts too."""
        return self.answered + (self.asking or self._store_retry.failing)

    @property
    def failing(self) -> bool:
        """Whether the store did not answer the last time it was asked for jobs."""
        return self._store_retry.failing

    async def run(self) -> None:
        """Claim and start jobs until stopped."""
        self._task = asyncio.current_task()
        self._breakers.update(await self._store_retry.call(self._store.facts))
        while not self._stopping:
            demand = min(self._slots.demand, BATCH_LIMIT)
            # What starts while nothing can be committed would only run again elsewhere.
            held_up = self._committer.failing or self._committer.backlog > BACKLOG_LIMIT
            if (demand <= 0 or held_up) and self._expected:
                await self._resign()
            elif demand <= 0:
                await self._rest(self._slots.changed())
            elif held_up:
                await self._rest(self._committer.flushed())
            else:
                await self._fetch(demand)
        await self._resign()
        self._ended.set()

    async def _resign(self) -> None:
        """Have the store wake another worker for new jobs, not this one."""
        self._expected = False
        with contextlib.suppress(StoreError, OSError):
            await self._store.claim(self._plan(0, frozenset()), self._worker)
        self._replanned(dict(self._replans))

    async def is_awaited(self) -> bool:
        """Whether a job is due that this worker may take, even if a limit holds it back."""
        return bool(due_lanes(self._plan(1, frozenset()), await self._store.stats()))

    def stop(self) -> None:
        """Claim no more. Jobs of a claim under way are given back unstarted."""
        self._stopping = True
        if self._resting and self._task is not None:
            self._task.cancel()

    async def stopped(self) -> None:
        """Wait for a claim under way, for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_WITHIN):
                await self._ended.wait()

    async def leave_to_others(self, queue: str, rest: float) -> None:
        """Let other workers go first in the queue, or take nothing from it for `rest` seconds.

        When this returns the store knows: for a job there it wakes another worker, if one sleeps.
        """
        changed = self._planner.leave_to_others(queue, rest)
        if changed and self._expected and not self._stopping:
            self._replans[queue] = asyncio.Event()
            self._interrupt()
        if queue in self._replans:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._replans[queue].wait(), REPLAN_WITHIN)

    def more_room(self) -> None:
        """Claim again soon: there is more room in the process pool than the last plan said."""
        if self._limited and self._room is not None and self._room.room > 0:
            self._claim_again()

    async def rest_from(self, queue: str, rest: float) -> None:
        """Take nothing from the queue for so long; returns when the store knows."""
        asyncio.get_running_loop().call_later(rest + TIMER, self._claim_again)
        await self.leave_to_others(queue, rest)

    def _claim_again(self) -> None:
        self._outdated = True
        self._interrupt()

    def _interrupt(self) -> None:
        if self._resting and not self._interrupted and self._task is not None:
            self._interrupted = True
            self._task.cancel()

    def _replanned(self, known: dict[str, asyncio.Event]) -> None:
        for queue, event in known.items():
            event.set()
            if self._replans.get(queue) is event:
                del self._replans[queue]

    async def _fetch(self, demand: int) -> None:
        replans = dict(self._replans)
        breakers = self._breakers
        resting, probe_only = breakers.resting, breakers.probe_only
        self._outdated = False
        allowed = 0 if self._room is None else min(self._room.room, demand)
        plan, asked = self._plan(demand, resting), self._monotonic()
        self.asking = True
        try:
            claimed = await self._store_retry.call(lambda: self._store.claim(plan, self._worker))
        finally:
            self.asking = False
        took = self._monotonic() - asked
        self._slots.claim_took(took)
        self.answered += 1
        if claimed.stale:
            self._breakers.update(await self._store_retry.call(self._store.facts))
            return
        self._replanned(replans)
        if self._stopping:
            self._executor.give_back(claimed.claims)
            return
        self._expected = len(claimed.claims) < demand
        self._note_room(allowed, claimed.claims)
        started = self._executor.start(self._still_wanted(claimed.claims, probe_only))
        self._planner.settle(plan, started, claimed.left, breakers.facts.current)
        if len(claimed.claims) < demand and len(started) == len(claimed.claims):
            await self._sleep(sooner(claimed.again_in, breakers.next_probe_in(resting)), took)

    def _still_wanted(self, claims: list[Claim], probe_only: frozenset[str]) -> list[Claim]:
        """Give back claims of queues whose breaker opened during the claim: they are no probes."""
        opened = self._breakers.probe_only - probe_only
        if not opened:
            return claims
        self._executor.give_back([claim for claim in claims if claim.queue in opened])
        return [claim for claim in claims if claim.queue not in opened]

    async def _sleep(self, again_in: float | None, took: float) -> None:
        """Sleep until the store wakes this worker, or until it is time to send the next claim.

        `again_in` counts from the store's answer. That answer took about half of what the claim
        `took`, and so will the next claim on its way.
        """
        if self._outdated:
            return
        nap = LONGEST_SLEEP if again_in is None else OTHERS_CLAIM
        if again_in is not None and again_in > 0:
            left = again_in - min(took / 2, LONGEST_WAY)
            if left < BRIEF:
                await self._rest(asyncio.sleep(left))
                return
            nap = min(left - TIMER, LONGEST_SLEEP)
        await self._rest(self._wait(nap))

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(0)  # lets what was claimed start first
        breakers = self._breakers
        if not breakers.probing:
            await self._store_retry.call(lambda: self._store.wait(self._worker, seconds))
            return
        # The end of our own probe says when to claim again, and the store does not wake us for it.
        woken = asyncio.ensure_future(
            self._store_retry.call(lambda: self._store.wait(self._worker, seconds))
        )
        probed = asyncio.ensure_future(breakers.probed())
        try:
            await asyncio.wait([woken, probed], return_when=asyncio.FIRST_COMPLETED)
            if woken.done():
                woken.result()
        finally:
            await cancel_tasks([woken, probed])

    async def _rest(self, waiting: Awaitable[None]) -> None:
        """Wait; only here may `stop` and `leave_to_others` interrupt."""
        self._resting = True
        try:
            await waiting
        except asyncio.CancelledError:
            interrupted, self._interrupted = self._interrupted, False
            if not (self._stopping or interrupted) or self._task is None:
                raise
            self._task.uncancel()
        finally:
            self._resting = self._interrupted = False

    def _plan(self, demand: int, resting: frozenset[str]) -> ClaimPlan:
        bound = NO_BOUND
        if self._room is not None and self._room.queues:
            bound = Bound(self._room.queues, self._room.room)
        return self._planner.plan(demand, self._breakers.facts.current, resting, bound)

    def _note_room(self, allowed: int, claims: list[Claim]) -> None:
        """Whether the claim took all that the process pool had room for: more may wait then."""
        if self._room is not None:
            taken = sum(claim.queue in self._room.queues for claim in claims)
            self._limited = taken >= allowed
            # The store wakes no other worker for work that was left behind by a claim: tell it to.
            self._outdated |= self._limited and allowed > 0


def sooner(one: float | None, other: float | None) -> float | None:
    """The shorter of two waits, either of which may be unknown."""
    return min((wait for wait in (one, other) if wait is not None), default=None)
