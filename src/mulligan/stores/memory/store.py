"""The reference store: plain data in one process, on the oracle, deterministic."""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Attempt, Claim, Enqueued, Job, Lease, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView, Limit, LimitView
from mulligan.core.outcome import Outcome, Verdict
from mulligan.core.page import LOOKS, Page, Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.record import Record
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.batches import batch_by_batch
from mulligan.stores.memory import claim, operate, read, workers
from mulligan.stores.memory.rows import apply
from mulligan.stores.memory.state import State
from mulligan.stores.rules import commit, enqueue
from mulligan.stores.rules.store import Rule, RuleStore
from mulligan.stores.watches import Tell, Watch

T = TypeVar("T")


class MemoryStore(RuleStore):
    """All state in this process; `clock` may be injected. Threads may share one store."""

    def __init__(self, url: str = "memory://", clock: Callable[[], float] = time.time) -> None:
        self.url = url
        self.state = State(clock)

    async def open(self, *, read_only: bool = False) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of; the data lives as long as the object."""

    async def carry_out(self, rule: Rule[T], *args: Any, **options: Any) -> T:
        return apply(self.state, rule, *args, **options)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return apply(self.state, enqueue.enqueue, jobs)

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return await batch_by_batch(self.enqueue, jobs)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        return claim.claim(self.state, plan, worker)

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        return apply(self.state, commit.commit, outcomes)

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        return workers.beat(self.state, worker, holding)

    async def leave(self, worker: Worker) -> None:
        workers.leave(self.state, worker)

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        return workers.reclaim(self.state, limit, worker)

    async def promote(self, limit: int) -> int:
        return operate.promote(self.state, limit)

    async def prune(self, keep_done: float, limit: int) -> int:
        return operate.prune(self.state, keep_done, limit)

    async def wait(self, worker: Worker, seconds: float) -> None:
        await self.state.sleepers.wait(worker.id, seconds)

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        return operate.count(self.state, counts)

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        return operate.switch(self.state, queue, region, before, after)

    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        operate.note(self.state, key, value, keep)

    async def schedules(self) -> dict[str, bytes]:
        return read.schedules(self.state)

    async def facts(self) -> Facts:
        return operate.facts(self.state)

    async def counts(self) -> Counts:
        return operate.counts(self.state)

    async def notes(self, prefix: str) -> dict[str, bytes]:
        return operate.notes(self.state, prefix)

    async def get(self, job: str) -> Job | None:
        return read.get(self.state, job)

    async def statuses(self, jobs: Sequence[str]) -> dict[str, Status]:
        return read.statuses(self.state, jobs)

    async def watch(self, job: str, tell: Tell) -> Watch:
        return read.watch(self.state, job, tell)

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        return read.arrivals(self.state, job)

    async def records(self, job: str, most: int | None = None) -> list[Record]:
        return read.records(self.state, job, most)

    async def history(self, job: str) -> list[Attempt]:
        return read.history(self.state, job)

    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        return read.page(self.state, selection, limit, after, bodies=bodies, looks=looks)

    async def stats(self) -> Stats:
        return read.stats(self.state)

    async def limits(self, most: int) -> list[LimitView]:
        return read.limits(self.state, most)

    async def keys(self, queue: str, most: int) -> list[KeyView]:
        return read.keys(self.state, queue, most)

    async def depth(self, lane: Lane, limit: int) -> int:
        return read.depth(self.state, lane, limit)

    async def ahead(self, job: str) -> int:
        return read.ahead(self.state, job)

    async def tail(self, lane: Lane, due: float) -> str | None:
        return read.tail(self.state, lane, due)

    async def doctor(self) -> list[Finding]:
        return []

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        operate.configure(self.state, queue, settings)

    async def pause(self, queue: str, *, paused: bool) -> None:
        operate.pause(self.state, queue, paused=paused)

    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        operate.set_limit(self.state, name, limit, declared=declared)

    async def pause_limit(self, name: str, seconds: float, *, at_least: bool = False) -> None:
        operate.pause_limit(self.state, name, seconds, at_least=at_least)

    async def spend(self, name: str, cost: int) -> None:
        operate.spend(self.state, name, cost)
