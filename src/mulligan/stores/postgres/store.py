"""The store itself: each operation is a call into one of the rooms beside it."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Adopted, Attempt, Claim, Enqueued, Job, Lease, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView, Limit, LimitView
from mulligan.core.outcome import Done, Outcome, Verdict
from mulligan.core.page import LOOKS, Page, Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.record import Record, Recording, RecordVerdict
from mulligan.core.reschedule import Reschedule
from mulligan.core.settings import check_batch
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.batches import batches_of
from mulligan.stores.postgres import (
    claim,
    commit,
    doctor,
    enqueue,
    named_limits,
    operate,
    read,
    record,
    schedules,
    workers,
)
from mulligan.stores.postgres.commit import TransactionalSink, Work
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.producer import BlockingProducer
from mulligan.stores.postgres.sweep import Sweeper
from mulligan.stores.postgres.url import read_url
from mulligan.stores.postgres.user_transaction import IDENTITY, UserTransactions
from mulligan.stores.postgres.wakeup import OVERDUE, Sleepers
from mulligan.stores.postgres.watch import Watcher
from mulligan.stores.watches import Tell, Watch

log = logging.getLogger("mulligan.store")


class PostgresStore:
    """All state in one schema of a PostgreSQL database; `clock` may be injected.

    A store belongs to one event loop. The server's clock decides unless one is injected.
    """

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        self.url = url
        self._database = Database(read_url(url), clock)
        self._sleepers = Sleepers(self._database.pool, listen=self._database.url.listen)
        self._watcher = Watcher(self._database, listen=self._database.url.listen)
        self._sweeper = Sweeper(self._database.pool)
        self._sink = TransactionalSink(self._database)
        self._user_transactions = UserTransactions(self._database)

    async def open(self, *, read_only: bool = False) -> None:
        """Connect, look what stands in between, and bring the schema up to date."""
        url, database = self._database.url, self._database
        direct = await database.open(read_only=read_only)
        if direct or (
            url.listen and not await database.shares_process() and await self._sleepers.test()
        ):
            database.be_direct()
            if not url.listen:
                log.info("listen=off: workers poll %s instead of being woken", url.shown)
            return
        self._sleepers.listen = self._watcher.listen = False
        log.warning(
            "a connection pooler hands transactions of %s to changing server processes: no"
            " LISTEN and no prepared statements; workers poll instead",
            url.shown,
        )

    async def close(self) -> None:
        """Let go of all connections."""
        await self._sweeper.close()
        await self._sleepers.close()
        await self._watcher.close()
        await self._database.close()

    # -- producers -----------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        check_batch(len(jobs))
        return await enqueue.enqueue(self._database, jobs) if jobs else []

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        batches = batches_of(jobs)
        if len(batches) == 1:
            return await self.enqueue(jobs)
        return await enqueue.enqueue_batches(self._database, batches) if batches else []

    def producer(self) -> BlockingProducer | None:
        """What enqueues for plain code; None behind a pooler, which changes sessions."""
        return None if self._database.pool.pooled else BlockingProducer(self._database)

    async def identity(self) -> str:
        """What tells this database from all others."""
        [[identity]] = await self._database.pool.run(IDENTITY)
        return str(identity)

    def enqueue_in(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        identity: Callable[[], str] | None = None,
    ) -> list[Enqueued]:
        return self._user_transactions.enqueue(connection, jobs, identity)

    async def aenqueue_in(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        identity: Callable[[], Awaitable[str]] | None = None,
    ) -> list[Enqueued]:
        return await self._user_transactions.aenqueue(connection, jobs, identity)

    # -- workers -------------------------------------------------------------------------------

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        check_batch(plan.demand)
        answer = await claim.claim(self._database, plan, worker, self._sleepers.channel)
        if not answer.stale:
            self._sleepers.claimed(worker.id)
        self._sweeper.killed("waiting", len(answer.claims))
        return answer

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        check_batch(len(outcomes))
        with self._watcher.telling(outcomes) as told:
            written = await commit.commit(self._database, outcomes, told)
        self._watcher.written(outcomes, written)
        return written.verdicts

    async def commit_within(self, outcome: Done, work: Work) -> Verdict:
        """Have the work done on a connection, and write the outcome, in one transaction.

        `work` is called with a psycopg AsyncConnection, and not at all if the lease is no longer
        held or the outcome already written. What it raises is raised when all is undone.
        """
        written = await self._sink.commit(outcome, work)
        self._watcher.written([outcome], written)
        return written.verdicts[0]

    async def record(self, recordings: Sequence[Recording]) -> list[RecordVerdict]:
        check_batch(len(recordings))
        return await record.record(self._database, recordings) if recordings else []

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        return await workers.beat(self._database, worker, holding)

    async def leave(self, worker: Worker) -> None:
        await self._database.call("leave", in_worker=worker.id)
        self._sleepers.forget(worker.id)

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        return await workers.reclaim(self._database, limit, worker)

    async def promote(self, limit: int) -> int:
        return await operate.promote(self._database, limit)

    async def prune(self, keep_done: float, limit: int) -> int:
        many = await operate.prune(self._database, keep_done, limit)
        self._sweeper.killed("job", many)
        return many

    async def wait(self, worker: Worker, seconds: float) -> None:
        async def look(*, known: bool) -> bool:
            [[found]] = await self._database.call(
                "look", in_worker=worker.id, known=known, overdue=OVERDUE
            )
            return bool(found)

        await self._sleepers.wait(worker.id, seconds, look)

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        return await operate.count(self._database, counts)

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        return await operate.switch(self._database, queue, region, before, after)

    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        await operate.note(self._database, key, value, keep)

    async def reschedule(self, change: Reschedule) -> bool:
        check_batch(len(change.place))
        return await schedules.reschedule(self._database, change)

    # -- readers -------------------------------------------------------------------------------

    async def facts(self) -> Facts:
        return await operate.facts(self._database)

    async def counts(self) -> Counts:
        return await operate.counts(self._database)

    async def notes(self, prefix: str) -> dict[str, bytes]:
        return await operate.notes(self._database, prefix)

    async def schedules(self) -> dict[str, bytes]:
        return await schedules.schedules(self._database)

    async def get(self, job: str) -> Job | None:
        return await read.get(self._database, job)

    async def statuses(self, jobs: Sequence[str]) -> dict[str, Status]:
        return await read.statuses(self._database, jobs)

    async def watch(self, job: str, tell: Tell) -> Watch:
        return await self._watcher.watch(job, tell)

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        return await read.arrivals(self._database, job)

    async def records(self, job: str, most: int | None = None) -> list[Record]:
        return await record.records(self._database, job, most)

    async def history(self, job: str) -> list[Attempt]:
        return await read.history(self._database, job)

    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        return await read.page(self._database, selection, limit, after, bodies=bodies, looks=looks)

    async def stats(self) -> Stats:
        return await read.stats(self._database)

    async def limits(self, most: int) -> list[LimitView]:
        return await named_limits.limits(self._database, most)

    async def keys(self, queue: str, most: int) -> list[KeyView]:
        return await named_limits.keys(self._database, queue, most)

    async def depth(self, lane: Lane, limit: int) -> int:
        return await read.depth(self._database, lane, limit)

    async def ahead(self, job: str) -> int:
        return await read.ahead(self._database, job)

    async def tail(self, lane: Lane, due: float) -> str | None:
        return await read.tail(self._database, lane, due)

    async def doctor(self) -> list[Finding]:
        """What is well and what is not, each with what to do about it."""
        return await doctor.examine(self._database.pool, self._sleepers)

    # -- operators -----------------------------------------------------------------------------

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        await operate.configure(self._database, queue, settings)

    async def pause(self, queue: str, *, paused: bool) -> None:
        await operate.pause(self._database, queue, paused=paused)

    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        await named_limits.set_limit(self._database, name, limit, declared=declared)

    async def pause_limit(self, name: str, seconds: float, *, at_least: bool = False) -> None:
        await named_limits.pause_limit(self._database, name, seconds, at_least=at_least)

    async def spend(self, name: str, cost: int) -> None:
        await named_limits.spend(self._database, name, cost)

    async def replay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        check_batch(len(jobs))
        return await operate.replay(self._database, jobs, from_start=from_start)

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        check_batch(len(jobs))
        return await operate.cancel(self._database, jobs, reason)

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        check_batch(len(jobs))
        return await operate.adopt(self._database, jobs)

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        check_batch(len(jobs))
        return await operate.purge(self._database, jobs)
