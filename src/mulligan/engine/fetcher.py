"""The fetcher: asks the store for as many jobs as there are free slots, and sleeps exactly."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from mulligan.core.errors import StoreError
from mulligan.core.job import Claim
from mulligan.core.plan import ClaimPlan
from mulligan.core.settings import BATCH_LIMIT
from mulligan.core.worker import Worker
from mulligan.engine.cancel import cancelled
from mulligan.engine.claim_planner import ClaimPlanner
from mulligan.engine.committer import Committer
from mulligan.engine.due_lanes import due_lanes
from mulligan.engine.executor import Executor
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

# A bell that got lost costs at most this long.
LONGEST_SLEEP = 5.0
STOP_WITHIN = 5.0
# What may start and was not given is being claimed by others: they are left this time to have it.
OTHERS_CLAIM = 0.02
# A claim that took longer was held up by more than the way to the store and back.
LONGEST_WAY = 0.005
# The timers of event loops keep the millisecond: for what is left then, no bell is listened for.
TIMER = 0.001
BRIEF = 2 * TIMER
# The store is told within so long of a plan that leaves more to others, or it is not waited for.
REPLAN_WITHIN = 1.0
# Outcomes that the store has not taken yet must not pile up without end.
BACKLOG_LIMIT = 4 * BATCH_LIMIT


class Fetcher:
    """Claims for free slots only, from its queues in turn."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        executor: Executor,
        committer: Committer,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._worker = worker
        self._executor = executor
        self._committer = committer
        self._monotonic = monotonic
        self._planner = ClaimPlanner(worker, monotonic)
        self._store_retry = StoreRetry("claim")
        self._task: asyncio.Task[None] | None = None
        self._resting = False
        self._stopping = False
        self._expected = False  # whether the store rings us for what comes
        self.asking = False
        self.answered = 0
        self._ended = asyncio.Event()
        # By queue, set when the store was told of a plan that leaves more of it to others.
        self._replans: dict[str, asyncio.Event] = {}
        self._nudged = False

    @property
    def asked(self) -> int:
        """How many claims the store should have answered: also one to come, if it fails now."""
        return self.answered + (self.asking or self._store_retry.failing)

    async def run(self) -> None:
        """Claim and start jobs until stopped."""
        self._task = asyncio.current_task()
        self._executor.facts = await self._store_retry.call(self._store.facts)
        while not self._stopping:
            demand = min(self._executor.demand, BATCH_LIMIT)
            full = self._committer.backlog > BACKLOG_LIMIT
            if (demand <= 0 or full) and self._expected:
                await self._resign()
            elif demand <= 0:
                await self._rest(self._executor.changed())
            elif full:
                await self._rest(self._committer.flushed())
            else:
                await self._fetch(demand)
        await self._resign()
        self._ended.set()

    async def _resign(self) -> None:
        """Wait for nothing more: what stands in our lanes wakes another worker instead."""
        self._expected = False
        with contextlib.suppress(StoreError, OSError):
            await self._store.claim(self._plan(0, frozenset()), self._worker)
        self._replanned(dict(self._replans))

    async def is_awaited(self) -> bool:
        """Whether something is due that this worker may take, also if a gate holds it back."""
        return bool(due_lanes(self._plan(1, frozenset()), await self._store.stats()))

    def stop(self) -> None:
        """Claim no more. What a claim under way brings is returned, unstarted."""
        self._stopping = True
        if self._resting and self._task is not None:
            self._task.cancel()

    async def stopped(self) -> None:
        """Wait for a claim under way, for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_WITHIN):
                await self._ended.wait()

    async def leave_to_others(self, queue: str, rest: float) -> None:
        """Let others go first in the queue for a while, or take nothing from it for so long.

        When this returns the store knows: who is woken for a job there is another, if one sleeps.
        """
        changed = self._planner.leave_to_others(queue, rest)
        if changed and self._expected and not self._stopping:
            self._replans[queue] = asyncio.Event()
            if self._resting and self._task is not None:
                self._nudged = True
                self._task.cancel()
        if queue in self._replans:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._replans[queue].wait(), REPLAN_WITHIN)

    def _replanned(self, known: dict[str, asyncio.Event]) -> None:
        for queue, event in known.items():
            event.set()
            if self._replans.get(queue) is event:
                del self._replans[queue]

    async def _fetch(self, demand: int) -> None:
        replans = dict(self._replans)
        breakers = self._executor.breakers
        resting, shut = breakers.resting, breakers.shut
        plan, asked = self._plan(demand, resting), self._monotonic()
        self.asking = True
        try:
            claimed = await self._store_retry.call(lambda: self._store.claim(plan, self._worker))
        finally:
            self.asking = False
        took = self._monotonic() - asked
        self.answered += 1
        if claimed.stale:
            self._executor.facts = await self._store_retry.call(self._store.facts)
            return
        self._replanned(replans)
        if self._stopping:
            self._executor.give_back(claimed.claims)
            return
        self._expected = len(claimed.claims) < demand
        started = self._executor.start(self._still_wanted(claimed.claims, shut))
        self._planner.settle(plan, started, claimed.left, self._executor.facts)
        if len(claimed.claims) < demand and len(started) == len(claimed.claims):
            await self._sleep(sooner(claimed.again_in, breakers.next_probe_in(resting)), took)

    def _still_wanted(self, claims: list[Claim], shut: frozenset[str]) -> list[Claim]:
        """Those that were not claimed while a breaker opened, which are no probes: given back."""
        since = self._executor.breakers.shut - shut
        if not since:
            return claims
        self._executor.give_back([claim for claim in claims if claim.queue in since])
        return [claim for claim in claims if claim.queue not in since]

    async def _sleep(self, again_in: float | None, took: float) -> None:
        """Rest until a bell rings, or the next claim should be sent to be there in time.

        Since the store said when, its answer was under way for about half of what the claim took,
        and as long will the next claim be.
        """
        nap = LONGEST_SLEEP if again_in is None else OTHERS_CLAIM
        if again_in is not None and again_in > 0:
            left = again_in - min(took / 2, LONGEST_WAY)
            if left < BRIEF:
                await self._rest(asyncio.sleep(left))
                return
            nap = min(left - TIMER, LONGEST_SLEEP)
        await self._rest(self._wait(nap))

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(0)  # what was claimed starts before a wait is prepared
        breakers = self._executor.breakers
        if not breakers.probing:
            await self._store_retry.call(lambda: self._store.wait(self._worker, seconds))
            return
        # How a probe of our own goes says when to claim again, and no bell rings for that.
        bell = asyncio.ensure_future(
            self._store_retry.call(lambda: self._store.wait(self._worker, seconds))
        )
        probed = asyncio.ensure_future(breakers.probed())
        try:
            await asyncio.wait([bell, probed], return_when=asyncio.FIRST_COMPLETED)
            if bell.done():
                bell.result()
        finally:
            await cancelled([bell, probed])

    async def _rest(self, waiting: Awaitable[None]) -> None:
        """Wait for it; only here may `stop` interrupt."""
        self._resting = True
        try:
            await waiting
        except asyncio.CancelledError:
            nudged, self._nudged = self._nudged, False
            if not (self._stopping or nudged) or self._task is None:
                raise
            self._task.uncancel()
        finally:
            self._resting = False

    def _plan(self, demand: int, resting: frozenset[str]) -> ClaimPlan:
        return self._planner.plan(demand, self._executor.facts, resting)


def sooner(one: float | None, other: float | None) -> float | None:
    """The shorter of two waits, of which either may be unknown."""
    return min((wait for wait in (one, other) if wait is not None), default=None)
