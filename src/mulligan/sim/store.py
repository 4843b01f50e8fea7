"""The store of a simulation: the memory store, with a log of its operations."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from mulligan.core.answers import Beat, Claimed
from mulligan.core.decide import LOST
from mulligan.core.health import Breaker
from mulligan.core.job import Claim, Lease
from mulligan.core.outcome import Again, Dead, Done, Outcome, Returned, Verdict
from mulligan.core.plan import ClaimPlan
from mulligan.core.settings import BATCH_LIMIT
from mulligan.core.worker import Worker
from mulligan.engine.worker import REAP_EVERY
from mulligan.sim.attempts import Waiting
from mulligan.sim.log import Log
from mulligan.sim.loop import OrderedLoop
from mulligan.stores.memory import MemoryStore, workers
from mulligan.stores.memory.state import State
from mulligan.stores.memory.wakeup import Sleepers

# Nobody asks a simulation for results. Workers look at jobs that were ahead of a retry a second
# after those have started; this is longer.
KEEP_DONE = 60.0


class Recorder(MemoryStore):
    """The memory store with a log. `ranks` orders the workers.

    `key_of` gives the fairness key that the scenario has for a job, and `ended` is called with the
    id of each job that is done or dead. Such jobs are deleted soon: there may be millions.

    With `sleepy`, chores that have nothing to do sleep: jobs of a scenario do not expire, and no
    lease is lost while every worker is alive.
    """

    def __init__(
        self,
        loop: OrderedLoop,
        key_of: Callable[[str], str | None],
        ended: Callable[[str], None],
        *,
        sleepy: bool = True,
    ) -> None:
        super().__init__(clock=loop.time)
        self.ranks: dict[str, int] = {}
        self.state.sleepers = RankedSleepers(self.state, self.ranks)
        self.state.lines.sleepers = self.state.sleepers
        self._key_of = key_of
        self._ended = ended
        self._dead: deque[tuple[float, str]] = deque()
        self._sleepy = sleepy
        self._crashed: dict[str, float] = {}
        self._crash = asyncio.Event()
        self.log = Log()

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        """Walk the plan, and log what started."""
        claimed = await super().claim(plan, worker)
        for claim in claimed.claims:
            sequence = self.state.jobs[claim.id].sequence
            self.log.started(claim, sequence, self._key_of(claim.id))
        return claimed

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write the outcomes, and log what became of the jobs."""
        verdicts = await super().commit(outcomes)
        for outcome, verdict in zip(outcomes, verdicts, strict=True):
            if verdict == "written":
                self._written(outcome)
        if self._sleepy and self.log.done % BATCH_LIMIT == 0:
            await super().prune(KEEP_DONE, BATCH_LIMIT)
            await self._purge()
        return verdicts

    async def _purge(self) -> None:
        """Delete the dead letters that are as old as what is pruned."""
        old: list[str] = []
        while (
            self._dead and self._dead[0][0] < self.state.now - KEEP_DONE and len(old) < BATCH_LIMIT
        ):
            old.append(self._dead.popleft()[1])
        await super().purge(old)

    def _written(self, outcome: Outcome) -> None:
        job = outcome.lease.job
        if isinstance(outcome, Done):
            self.log.succeeded(job, self.state.now)
            self._ended(job)
        elif isinstance(outcome, Returned):
            self.log.returned(job)
        elif isinstance(outcome, Again | Dead):
            if outcome.failure.type != LOST.type:
                self.log.failed(job, self.state.now)
            if isinstance(outcome, Again):
                self.log.again(job, outcome.lane, self.state.jobs[job].due)
            else:
                self.log.gave_up(job, self.state.now)
                self._dead.append((self.state.now, job))
                self._ended(job)

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        """Switch the breaker, and log that it opened or closed."""
        switched = await super().switch(queue, region, before, after)
        if switched and before.open != after.open:
            self.log.switched(region, self.state.now, opened=after.open)
        return switched

    def left(self) -> list[Waiting]:
        """The pending jobs, due or not."""
        return [
            Waiting(record.lane.label, record.due, is_retry=bool(record.history))
            for record in self.state.jobs.values()
            if record.status == "pending"
        ]

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        """Keep the worker's leases."""
        # A slot that is held through a backoff still shows the lease of the failed attempt, which
        # was committed and is not lost. A live worker never loses a lease here.
        held = [lease for lease in holding if workers.holds(self.state, worker, lease)]
        return await super().beat(worker, held)

    def crash(self, worker: Worker) -> None:
        """The worker's process died: it does not leave, and its leases will run out."""
        self._crashed[worker.id] = self.state.workers[worker.id].beat_at + worker.lease
        self._crash.set()
        self.log.crashed(worker.id, self.state.clock())

    async def leave(self, worker: Worker) -> None:
        """Forget the worker, unless it crashed."""
        if worker.id not in self._crashed:
            await super().leave(worker)

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        """Claim what dead workers held; waits for a death if there was none."""
        if self._sleepy and not self._crashed:
            await self._crash.wait()
            # Continue as if it had looked every second all the time.
            joined = self.state.workers[worker.id].joined_at
            await asyncio.sleep((joined - self.state.clock()) % REAP_EVERY)
        claims = await super().reclaim(limit, worker)
        for claim in claims:
            self.log.reclaimed(claim.id, self.state.now)
        held = {record.worker for record in self.state.running.values()}
        for dead, until in list(self._crashed.items()):
            if until <= self.state.now and dead not in held:
                del self._crashed[dead]
                self._crash.clear()
        return claims

    async def promote(self, limit: int) -> int:
        """Do the chore, or never return, where nothing can expire."""
        if self._sleepy:
            await asyncio.get_running_loop().create_future()
        return await super().promote(limit)


class RankedSleepers(Sleepers):
    """Of several sleepers that could be woken, the first in the scenario's order is."""

    def __init__(self, state: State, ranks: Mapping[str, int]) -> None:
        super().__init__(state.lock, state.is_live)
        self._ranks = ranks

    def add(self, worker: str, plan: ClaimPlan, until: float) -> None:
        """Keep the sleepers in order."""
        if worker in self._sleepers:
            super().add(worker, plan, until)
            return
        last = next(reversed(self._sleepers), worker)
        super().add(worker, plan, until)
        if self._ranks[last] > self._ranks[worker]:  # most often the newest does stand last
            ranked = sorted(self._sleepers, key=self._ranks.__getitem__)
            self._sleepers = {each: self._sleepers[each] for each in ranked}
