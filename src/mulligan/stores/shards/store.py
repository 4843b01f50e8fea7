"""The sharded store: the contract's operations over several whole stores."""

from collections.abc import Callable, Sequence
from functools import partial

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Adopted, Attempt, Claim, Enqueued, Job, Lease, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView, Limit, LimitView
from mulligan.core.outcome import Outcome, Verdict
from mulligan.core.page import LOOKS, Page, Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.record import Record, Recording, RecordVerdict
from mulligan.core.reschedule import Reschedule
from mulligan.core.shards import absent
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.contract import Store
from mulligan.stores.shards import (
    claim,
    commit,
    doctor,
    enqueue,
    locate,
    named_limits,
    operate,
    page,
    read,
    schema,
    workers,
)
from mulligan.stores.shards.beats import Beats
from mulligan.stores.shards.connection import Shards
from mulligan.stores.shards.wakeup import WorkerSleep
from mulligan.stores.watches import Tell, Watch


class ShardedStore:
    """Jobs in several stores, each in the home that `core/shards.py` gives it.

    Each operation is atomic in each shard. What the contract promises over all jobs holds for those
    of a shard: docs/concepts/shards.md says what that makes of the whole.
    """

    def __init__(
        self,
        url: str,
        stores: Sequence[Store],
        clock: Callable[[], float] | None = None,
        *,
        inline: bool = False,
    ) -> None:
        self.url = url
        self.shards = Shards(url, stores, clock, inline=inline)
        self.shards.on_return = partial(schema.welcome, self.shards)
        self._sleeps: dict[str, WorkerSleep] = {}
        self._beats = Beats()

    async def open(self, *, read_only: bool = False) -> None:
        await schema.prepare(self.shards, read_only=read_only)

    async def close(self) -> None:
        for sleep in self._sleeps.values():
            await sleep.end()
        self._sleeps.clear()
        await self._beats.end()
        await self.shards.close()

    async def shard_of(self, job: str) -> int | None:
        """The number of the shard in which the job is; None if it is in none."""
        seen = await locate.found(self.shards, job)
        return None if seen is None else seen[0]

    def absent(self) -> list[str]:
        """A sentence for each shard that is away, as far as is known."""
        return absent(self.shards.views({}, {}))

    # -- producers -------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return await enqueue.enqueue(self.shards, jobs, whole=False) if jobs else []

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return await enqueue.enqueue(self.shards, jobs, whole=True) if jobs else []

    # -- workers ---------------------------------------------------------------------------

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        return await claim.claim(self.shards, self._sleep_of(worker), plan, worker)

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        return await commit.commit(self.shards, outcomes) if outcomes else []

    async def record(self, recordings: Sequence[Recording]) -> list[RecordVerdict]:
        return await commit.record(self.shards, recordings) if recordings else []

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        return await workers.beat(self.shards, self._beats, worker, holding)

    async def leave(self, worker: Worker) -> None:
        sleep = self._sleeps.pop(worker.id, None)
        if sleep is not None:
            await sleep.end()
        await self.shards.each(lambda shard: shard.store.leave(worker))

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        return await workers.reclaim(self.shards, limit, worker)

    async def promote(self, limit: int) -> int:
        return await operate.until_met(
            self.shards, "promote", limit, lambda store, n: store.promote(n)
        )

    async def prune(self, keep_done: float, limit: int) -> int:
        return await operate.until_met(
            self.shards, "prune", limit, lambda store, n: store.prune(keep_done, n)
        )

    async def wait(self, worker: Worker, seconds: float) -> None:
        await self._sleep_of(worker).wait(self.shards, worker, seconds)

    def _sleep_of(self, worker: Worker) -> WorkerSleep:
        sleep = self._sleeps.get(worker.id)
        if sleep is None:
            sleep = self._sleeps[worker.id] = WorkerSleep(self.shards.count)
        return sleep

    # -- counts, notes and schedules, which live in the first shard ----------------------------

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        return await self.shards.home_at(lambda store: store.count(counts))

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        return await operate.switch(self.shards, queue, region, before, after)

    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        await self.shards.home_at(lambda store: store.note(key, value, keep))

    async def reschedule(self, change: Reschedule) -> bool:
        return await operate.reschedule(self.shards, change)

    async def counts(self) -> Counts:
        return await self.shards.home_at(lambda store: store.counts())

    async def notes(self, prefix: str) -> dict[str, bytes]:
        return await self.shards.home_at(lambda store: store.notes(prefix))

    async def schedules(self) -> dict[str, bytes]:
        return await operate.schedules(self.shards)

    # -- readers ---------------------------------------------------------------------------

    async def facts(self) -> Facts:
        return await workers.facts(self.shards)

    async def get(self, job: str) -> Job | None:
        return await read.get(self.shards, job)

    async def statuses(self, jobs: Sequence[str]) -> dict[str, Status]:
        return await read.statuses(self.shards, jobs)

    async def watch(self, job: str, tell: Tell) -> Watch:
        return await read.watch(self.shards, job, tell)

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        return await read.of_job(self.shards, job, lambda store: store.arrivals(job))

    async def records(self, job: str, most: int | None = None) -> list[Record]:
        return await read.of_job(self.shards, job, lambda store: store.records(job, most))

    async def history(self, job: str) -> list[Attempt]:
        return await read.of_job(self.shards, job, lambda store: store.history(job))

    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        return await page.page(self.shards, selection, limit, after, bodies=bodies, looks=looks)

    async def stats(self) -> Stats:
        return await read.stats(self.shards)

    async def limits(self, most: int) -> list[LimitView]:
        return await named_limits.limits(self.shards, most)

    async def keys(self, queue: str, most: int) -> list[KeyView]:
        return await read.keys(self.shards, queue, most)

    async def depth(self, lane: Lane, limit: int) -> int:
        return await read.depth(self.shards, lane, limit)

    async def ahead(self, job: str) -> int:
        return await read.ahead(self.shards, job)

    async def tail(self, lane: Lane, due: float) -> str | None:
        return await read.tail(self.shards, lane, due)

    async def doctor(self) -> list[Finding]:
        return await doctor.examine(self.shards)

    # -- operators -------------------------------------------------------------------------

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        await operate.configure(self.shards, queue, settings)

    async def pause(self, queue: str, *, paused: bool) -> None:
        await operate.pause(self.shards, queue, paused=paused)

    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        await named_limits.set_limit(self.shards, name, limit, declared=declared)

    async def pause_limit(self, name: str, seconds: float, *, at_least: bool = False) -> None:
        await named_limits.pause_limit(self.shards, name, seconds, at_least=at_least)

    async def spend(self, name: str, cost: int) -> None:
        await named_limits.spend(self.shards, name, cost)

    async def replay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        return await operate.change_jobs(
            self.shards, jobs, lambda store, part: store.replay(part, from_start=from_start)
        )

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        return await operate.change_jobs(
            self.shards, jobs, lambda store, part: store.cancel(part, reason)
        )

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        return await enqueue.adopt(self.shards, jobs)

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        return await operate.change_jobs(self.shards, jobs, lambda store, part: store.purge(part))
