"""The store as the contract has it; each operation is a call into the room that it names."""

from collections.abc import Callable, Sequence

from pymongo.errors import ConfigurationError, InvalidURI

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.errors import InvalidError
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Adopted, Attempt, Claim, Enqueued, Job, Lease, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView, Limit, LimitView
from mulligan.core.outcome import Outcome, Returned, Verdict
from mulligan.core.page import (
    LOOKS,  # AMBIGUOUS
    Page,
    Selection,
)
from mulligan.core.plan import ClaimPlan
from mulligan.core.record import Record, Recording, RecordVerdict
from mulligan.core.reschedule import Reschedule
from mulligan.core.settings import check_batch
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.batches import batch_by_batch
from mulligan.stores.mongo import doctor, operate, record, schema
from mulligan.stores.mongo.book import Book
from mulligan.stores.mongo.claim import Claimer
from mulligan.stores.mongo.commit import Committer
from mulligan.stores.mongo.connection import DEFAULT_TASK, Connection, guarded
from mulligan.stores.mongo.enqueue import Enqueuer
from mulligan.stores.mongo.facts import StoredCounts, StoredFacts
from mulligan.stores.mongo.gather import Gatherer
from mulligan.stores.mongo.leases import Leases
from mulligan.stores.mongo.operate import Operator
from mulligan.stores.mongo.page import PageReader
from mulligan.stores.mongo.read import Reader
from mulligan.stores.mongo.repair import Repair
from mulligan.stores.mongo.schedules import Schedules
from mulligan.stores.mongo.stats import StatsReader
from mulligan.stores.mongo.url import parse_url
from mulligan.stores.mongo.wakeup import Wakeup
from mulligan.stores.mongo.watch import Watcher
from mulligan.stores.mongo.workers import Workers
from mulligan.stores.watches import Tell, Watch


class MongoStore:
    """MongoDB 4.4 or newer, or a server that speaks like one. Belongs to one event loop."""

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        self.url = url
        self._clock = clock
        self.parsed_url = parse_url(url)

    @guarded
    async def open(self, *, read_only: bool = False) -> None:
        """Connect and create the indexes that are missing; may be tried again after a failure.

        For reading nothing is created, and where nothing is stored there is nothing to see.
        """
        await self.close()
        try:
            connection = self._connection = Connection(self.parsed_url, self._clock)
        except (ConfigurationError, InvalidURI, ValueError) as error:
            shown = self.parsed_url.without_secrets(error)
            raise InvalidError(f"store URL for {self.parsed_url.where}: {shown}") from None
        wakeup = self._wakeup = Wakeup(connection)
        self._watcher = Watcher(connection)
        book = self._book = Book(connection, wakeup)
        gatherer = Gatherer(connection, wakeup)
        self._counts = StoredCounts(connection)
        self._facts = StoredFacts(connection, wakeup, self._counts)
        self._workers = Workers(connection, wakeup, book, self._facts)
        leases = Leases(connection)
        self._claimer = Claimer(self._workers, book, gatherer, leases)
        self._committer = Committer(connection, wakeup, book, gatherer, leases)
        self._enqueuer = Enqueuer(connection, wakeup, book)
        self._operator = Operator(connection, wakeup, book, gatherer)
        self._schedules = Schedules(self._operator, self._facts)
        self._repair = Repair(self._operator, self._counts, self._schedules)
        self._reader = Reader(connection, book)
        self._pages = PageReader(connection, self._reader)
        self._stats = StatsReader(connection)
        stored = await schema.check_layout(connection, read_only=read_only)
        if not read_only:
            for collection, indexes in schema.wanted(connection):
                await schema.ensure(collection, indexes)
            if "facts" not in stored:
                await self._facts.begin()
        connection.learn_default_task(stored.get(DEFAULT_TASK, {}).get("task"))
        await connection.now()
        hello = await connection.client.admin.command("hello")
        wakeup.local.streaming = "setName" in hello or hello.get("msg") == "isdbgrid"

    async def close(self) -> None:
        """Let go of the connections."""
        if hasattr(self, "_connection"):
            await self._wakeup.local.close()
            await self._watcher.close()
            await self._connection.client.close()

    @guarded
    async def doctor(self) -> list[Finding]:
        """What an operator should know about the server: (ok, warn or bad; sentence; remedy)."""
        return await doctor.examine(self._connection, self._wakeup)

    @guarded
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Accept every job, in one insert."""
        return await self._enqueuer.enqueue(jobs)

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Accept any number of jobs, an insert for each batch."""
        return await batch_by_batch(self.enqueue, jobs)

    @guarded
    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        """Walk the plan and hand its jobs to the worker."""
        check_batch(plan.demand)
        claimed, unwanted = await self._claimer.claim(plan, worker)
        if unwanted:
            await self._committer.commit([Returned(claim.lease) for claim in unwanted])
        return claimed

    @guarded
    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write each outcome whose lease is still held."""
        check_batch(len(outcomes))
        verdicts = await self._committer.commit(outcomes)
        self._watcher.ended(outcome.lease.job for outcome in outcomes)
        return verdicts

    @guarded
    async def record(self, recordings: Sequence[Recording]) -> list[RecordVerdict]:
        """Keep what attempts record whose leases are still held."""
        return await record.record(self._connection, recordings)

    @guarded
    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        """Keep all leases of the worker for another lease time."""
        return await self._workers.beat(worker, holding)

    @guarded
    async def leave(self, worker: Worker) -> None:
        """Forget a worker that stopped on purpose."""
        await self._workers.leave(worker)

    @guarded
    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        """Claim jobs whose worker stopped beating, or whom another program abandoned."""
        return await self._workers.reclaim(limit, worker)

    @guarded
    async def promote(self, limit: int) -> int:
        """Housekeeping; claims are right without it."""
        return await self._repair.promote(limit)

    @guarded
    async def prune(self, keep_done: float, limit: int) -> int:
        """Delete done and cancelled jobs that ended long enough ago."""
        return await self._repair.prune(keep_done, limit)

    @guarded
    async def wait(self, worker: Worker, seconds: float) -> None:
        """Sleep until woken, or until the time is up."""
        await self._wakeup.local.wait(worker, seconds)

    @guarded
    async def facts(self) -> Facts:
        """What plans are made from."""
        return await self._facts.facts(await self._connection.now())

    @guarded
    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Store the settings of a queue."""
        await self._facts.configure(queue, settings)

    @guarded
    async def pause(self, queue: str, *, paused: bool) -> None:
        """Stop or resume claims from a queue."""
        await self._facts.pause(queue, paused=paused)

    @guarded
    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        """Store a limit as an app declares it, or as an operator sets it."""
        await self._book.set_limit(name, limit, declared=declared)

    @guarded
    async def pause_limit(self, name: str, seconds: float, *, at_least: bool = False) -> None:
        """Let nobody of the limit start for so long."""
        await self._book.pause_limit(name, seconds, at_least=at_least)

    @guarded
    async def spend(self, name: str, cost: int) -> None:
        """Charge a limit so much."""
        await self._book.spend(name, cost)

    @guarded
    async def limits(self, most: int) -> list[LimitView]:
        """The limits that are stored or in use, in order of names."""
        return await self._book.limits(most)

    @guarded
    async def keys(self, queue: str, most: int) -> list[KeyView]:
        """The fairness keys of the queue that have jobs waiting."""
        return await self._book.keys(queue, most)

    @guarded
    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        """Add to what is counted; returns the health of the queues and regions named."""
        return await self._facts.count(counts)

    @guarded
    async def counts(self) -> Counts:
        """All that was counted."""
        return await self._counts.counts(await self._connection.now())

    @guarded
    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        """Replace a breaker if it is still as it was."""
        return await self._facts.switch((queue, region), before, after)

    @guarded
    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        """Keep a value under this key for so many seconds."""
        await operate.note(self._connection, key, value, keep)

    @guarded
    async def notes(self, prefix: str) -> dict[str, bytes]:
        """The values kept under keys that begin so."""
        return await operate.notes(self._connection, prefix)

    @guarded
    async def reschedule(self, change: Reschedule) -> bool:
        """Replace the record of a schedule, withdraw a tick and place others."""
        return await self._schedules.reschedule(change)

    @guarded
    async def schedules(self) -> dict[str, bytes]:
        """The records of all schedules, by name."""
        return await self._schedules.schedules()

    @guarded
    async def get(self, job: str) -> Job | None:
        """The job as it is now."""
        return await self._reader.get(job)

    @guarded
    async def statuses(self, jobs: Sequence[str]) -> dict[str, Status]:
        """The statuses of the stored ones of these jobs."""
        return await self._reader.statuses(jobs)

    async def watch(self, job: str, tell: Tell) -> Watch:
        """Have `tell` called when the job may have ended."""
        return self._watcher.watch(job, tell)

    @guarded
    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        """The results that have arrived at a gathering job, by index."""
        return await self._reader.arrivals(job)

    @guarded
    async def records(self, job: str, most: int | None = None) -> list[Record]:
        """What the job has recorded, oldest first."""
        return await self._reader.records(job, most)

    @guarded
    async def history(self, job: str) -> list[Attempt]:
        """Its failed and lost attempts, oldest first."""
        return await self._reader.history(job)

    @guarded
    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        """Jobs that match, newest first."""
        return await self._pages.page(selection, limit, after, bodies=bodies, looks=looks)

    @guarded
    async def stats(self) -> Stats:
        """Counts of everything."""
        return await self._stats.stats()

    @guarded
    async def depth(self, lane: Lane, limit: int) -> int:
        """How many jobs of the lane could start now, counted up to `limit`."""
        return await self._reader.depth(lane, limit)

    @guarded
    async def ahead(self, job: str) -> int:
        """How many jobs stand before this one in its lane."""
        return await self._reader.ahead(job)

    @guarded
    async def tail(self, lane: Lane, due: float) -> str | None:
        """The last job waiting in the lane of those that were due by then."""
        return await self._reader.tail(lane, due)

    @guarded
    async def replay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        """Make failed jobs pending again."""
        return await self._operator.replay(jobs, from_start=from_start)

    @guarded
    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        """End pending and running jobs."""
        answers = await self._operator.cancel(jobs, reason)
        self._watcher.ended(jobs)
        return answers

    @guarded
    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        """Take over jobs of another store."""
        return await self._operator.adopt(jobs)

    @guarded
    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended."""
        return await self._operator.purge(jobs)
