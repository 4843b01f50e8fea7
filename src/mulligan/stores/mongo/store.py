"""The store as the contract has it; each operation lives in the module that it names."""

from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    InvalidURI,
    PyMongoError,
    WaitQueueTimeoutError,
)

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Adopted, Attempt, Claim, Enqueued, Job, Lease, NewJob
from mulligan.core.lane import Lane
from mulligan.core.outcome import Outcome, Returned, Verdict
from mulligan.core.page import LOOKS, Page, Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.settings import check_batch
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.batches import batch_by_batch
from mulligan.stores.mongo import doctor, notes, schema
from mulligan.stores.mongo.address import read_address
from mulligan.stores.mongo.base import DEFAULT_TASK, Base
from mulligan.stores.mongo.bells import Bells
from mulligan.stores.mongo.claiming import Claiming
from mulligan.stores.mongo.committing import Committing
from mulligan.stores.mongo.counting import Counting
from mulligan.stores.mongo.enqueueing import Enqueueing
from mulligan.stores.mongo.gathering import Gathering
from mulligan.stores.mongo.keys import Keys
from mulligan.stores.mongo.known import Known
from mulligan.stores.mongo.leases import Leases
from mulligan.stores.mongo.operating import Operating
from mulligan.stores.mongo.page import Pages
from mulligan.stores.mongo.reading import Reading
from mulligan.stores.mongo.stats import StatsReader
from mulligan.stores.mongo.upkeep import Upkeep
from mulligan.stores.mongo.workers import Workers

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["MongoStore", P], Coroutine[Any, Any, T]]


def guarded(method: Method[P, T]) -> Method[P, T]:
    """Say what failed in mulligan's words, and never with the password."""

    @wraps(method)
    async def call(self: "MongoStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except (ConnectionFailure, WaitQueueTimeoutError) as error:
            raise StoreUnavailableError(
                f"MongoDB at {self.where} cannot be reached: {self.without_secrets(error)}"
            ) from None
        except PyMongoError as error:
            raise StoreError(
                f"MongoDB at {self.where} refused: {self.without_secrets(error)}"
            ) from None

    return call


class MongoStore:
    """MongoDB 4.4 or newer, or a server that speaks like one. Belongs to one event loop."""

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        self.url = url
        self._clock = clock
        self._address = read_address(url)
        parts = urlsplit(url)
        self.where = parts.netloc.rpartition("@")[2]
        self._secrets = [text for text in {parts.password, unquote(parts.password or "")} if text]

    def without_secrets(self, error: Exception) -> str:
        """The error's text as it may be shown."""
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    @guarded
    async def open(self, *, read_only: bool = False) -> None:
        """Connect and create the indexes that are missing; may be tried again after a failure.

        For reading nothing is created, and where nothing is stored there is nothing to see.
        """
        await self.close()
        try:
            base = self._base = Base(self._address, self._clock)
        except (ConfigurationError, InvalidURI, ValueError) as error:
            raise InvalidError(
                f"store URL for {self.where}: {self.without_secrets(error)}"
            ) from None
        bells = self._bells = Bells(base)
        keys = self._keys = Keys(base, bells)
        gathering = Gathering(base, bells)
        self._counting = Counting(base)
        self._known = Known(base, bells, self._counting)
        self._workers = Workers(base, bells, keys, self._known)
        leases = Leases(base)
        self._claiming = Claiming(self._workers, keys, gathering, leases)
        self._committing = Committing(base, bells, keys, gathering, leases)
        self._enqueueing = Enqueueing(base, bells)
        self._operating = Operating(base, bells, keys, gathering)
        self._upkeep = Upkeep(self._operating, self._counting)
        self._reading = Reading(base)
        self._pages = Pages(base, self._reading)
        self._stats = StatsReader(base)
        stored = await schema.check_layout(base, self.where, read_only=read_only)
        if not read_only:
            for collection, indexes in schema.wanted(base):
                await schema.ensure(collection, indexes)
            if "facts" not in stored:
                await self._known.begin()
        base.learn_default_task(stored.get(DEFAULT_TASK, {}).get("task"))
        await base.now()
        hello = await base.client.admin.command("hello")
        bells.waiting.streaming = "setName" in hello or hello.get("msg") == "isdbgrid"

    async def close(self) -> None:
        """Let go of the connections."""
        if hasattr(self, "_base"):
            await self._bells.waiting.close()
            await self._base.client.close()

    @guarded
    async def doctor(self) -> list[Finding]:
        """What an operator should know about the server: (ok, warn or bad; sentence; remedy)."""
        return await doctor.examine(self._base, self._bells)

    @guarded
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Accept every job, in one insert."""
        return await self._enqueueing.enqueue(jobs)

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Accept any number of jobs, an insert for each batch."""
        return await batch_by_batch(self.enqueue, jobs)

    @guarded
    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        """Walk the plan and hand its jobs to the worker."""
        check_batch(plan.demand)
        claimed, unwanted = await self._claiming.claim(plan, worker)
        if unwanted:
            await self._committing.commit([Returned(claim.lease) for claim in unwanted])
        return claimed

    @guarded
    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write each outcome whose lease is still held."""
        check_batch(len(outcomes))
        return await self._committing.commit(outcomes)

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
        return await self._upkeep.promote(limit)

    @guarded
    async def prune(self, keep_done: float, limit: int) -> int:
        """Delete done and cancelled jobs that ended long enough ago."""
        return await self._upkeep.prune(keep_done, limit)

    @guarded
    async def wait(self, worker: Worker, seconds: float) -> None:
        """Sleep until rung, or until the time is up."""
        await self._bells.waiting.wait(worker, seconds)

    @guarded
    async def facts(self) -> Facts:
        """What plans are made from."""
        return await self._known.facts(await self._base.now())

    @guarded
    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Store the settings of a queue."""
        await self._known.configure(queue, settings)

    @guarded
    async def pause(self, queue: str, *, paused: bool) -> None:
        """Stop or resume claims from a queue."""
        await self._known.pause(queue, paused=paused)

    @guarded
    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        """Add to what is counted, and say how the queues and regions named are now."""
        return await self._known.count(counts)

    @guarded
    async def counts(self) -> Counts:
        """All that was counted."""
        return await self._counting.counts(await self._base.now())

    @guarded
    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        """Replace a breaker if it is still as it was."""
        return await self._known.switch((queue, region), before, after)

    @guarded
    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        """Keep a value under this key for so many seconds."""
        await notes.note(self._base, key, value, keep)

    @guarded
    async def notes(self, prefix: str) -> dict[str, bytes]:
        """The values kept under keys that begin so."""
        return await notes.notes(self._base, prefix)

    @guarded
    async def get(self, job: str) -> Job | None:
        """The job as it is now."""
        return await self._reading.get(job)

    @guarded
    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        """The results that have arrived at a gathering job, by place."""
        return await self._reading.arrivals(job)

    @guarded
    async def history(self, job: str) -> list[Attempt]:
        """Its failed and lost attempts, oldest first."""
        return await self._reading.history(job)

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
        return await self._reading.depth(lane, limit)

    @guarded
    async def ahead(self, job: str) -> int:
        """How many jobs stand before this one in its lane."""
        return await self._reading.ahead(job)

    @guarded
    async def tail(self, lane: Lane, due: float) -> str | None:
        """The last job waiting in the lane of those that were due by then."""
        return await self._reading.tail(lane, due)

    @guarded
    async def replay(self, jobs: Sequence[str]) -> list[bool]:
        """Make failed jobs pending again."""
        return await self._operating.replay(jobs)

    @guarded
    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        """End pending and running jobs."""
        return await self._operating.cancel(jobs, reason)

    @guarded
    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        """Take over jobs of another store."""
        return await self._operating.adopt(jobs)

    @guarded
    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended."""
        return await self._operating.purge(jobs)
