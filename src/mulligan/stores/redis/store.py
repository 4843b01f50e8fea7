"""The Redis store: the contract's operations, each one script and one round trip."""

from collections.abc import Callable, Sequence
from typing import Any

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.errors import StoreError, UnknownJobError
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Adopted, Attempt, Claim, Enqueued, Job, Lease, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView, Limit, LimitView
from mulligan.core.outcome import Dead, Outcome, Verdict
from mulligan.core.page import LOOKS, Page, Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.record import Record, Recording, RecordVerdict
from mulligan.core.reschedule import Reschedule
from mulligan.core.settings import check_batch
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.batches import batch_by_batch
from mulligan.stores.redis import doctor, named_limits, operate, read, record, validate, workers
from mulligan.stores.redis.claim import claimed_of, encode_plan
from mulligan.stores.redis.commit import commit
from mulligan.stores.redis.connection import Server, Value
from mulligan.stores.redis.enqueue import enqueue
from mulligan.stores.redis.fields import (
    UNPACK,
    attempt_of,
    escape,
    float_text,
    job_of,
    lane_name,
    spell_limit,
)
from mulligan.stores.redis.inbox import Inbox
from mulligan.stores.redis.producer import BlockingProducer
from mulligan.stores.redis.schedules import reschedule, schedules_of
from mulligan.stores.redis.schema import prepare
from mulligan.stores.redis.url import read_url
from mulligan.stores.redis.watch import Subscriber
from mulligan.stores.redis.workers import worker_values
from mulligan.stores.watches import Tell, Watch

KEEP_DEAD_WORKERS = 86_400.0


class RedisStore:
    """Jobs in Redis or Valkey, under one prefix. A store object belongs to one event loop.

    The server's clock decides unless another is given. A lost connection raises
    StoreUnavailableError, and the next call makes a new one.
    """

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        self.url = url
        self._clock = clock
        self._server = Server(read_url(url))
        self._inbox = Inbox(self._server, self._now)
        self._subscriber = Subscriber(self._server)
        # The worker that last claimed here: it likely holds what is committed here.
        self._worker = ""

    async def open(self, *, read_only: bool = False) -> None:
        await prepare(self._server, read_only=read_only)

    async def close(self) -> None:
        await self._inbox.close()
        await self._subscriber.close()
        await self._server.close()

    async def doctor(self) -> list[Finding]:
        """What an operator should know of the server: (ok, warn or bad; sentence; remedy)."""
        return await doctor.examine(self._server)

    # -- jobs ------------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        check_batch(len(jobs))
        return await enqueue(self._run, jobs) if jobs else []

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return await batch_by_batch(self.enqueue, jobs)

    def producer(self) -> BlockingProducer | None:
        """What enqueues for plain code; None where there may be more than one server to ask."""
        url = self._server.url
        if url.wait_replicas or url.service or len(url.hosts) > 1:
            return None
        return BlockingProducer(url, self._now)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        check_batch(plan.demand)
        self._inbox.listen()
        self._worker = worker.id
        encoded = encode_plan(plan)
        answer = await self._run("claim", *worker_values(worker), *encoded.values)
        if answer is None:
            return Claimed([], stale=True)
        claimed, invalid = claimed_of(answer, encoded.lanes, worker)
        await self._fail(invalid, worker)
        return claimed

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        check_batch(len(outcomes))
        return await commit(self._run, outcomes, self._worker) if outcomes else []

    async def record(self, recordings: Sequence[Recording]) -> list[RecordVerdict]:
        check_batch(len(recordings))
        return await record.record(self._run, recordings, self._worker) if recordings else []

    # -- workers ---------------------------------------------------------------------------

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        beat, invalid = await workers.beat(self._run, worker, holding)
        await self._fail(invalid, worker)
        return beat

    async def leave(self, worker: Worker) -> None:
        await self._run("leave", worker.id)

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        if limit <= 0:
            return []
        self._worker = worker.id
        answer = await self._run("reclaim", *worker_values(worker), limit)
        reclaimed, invalid = workers.reclaimed_of(answer)
        await self._fail(invalid, worker)
        return reclaimed

    async def promote(self, limit: int) -> int:
        await self._inbox.drain()
        return int(await self._run("promote", limit))

    async def prune(self, keep_done: float, limit: int) -> int:
        return int(await self._run("prune", float_text(keep_done), limit, KEEP_DEAD_WORKERS))

    async def wait(self, worker: Worker, seconds: float) -> None:
        self._inbox.listen()
        # A wake-up that is lost as the time runs out costs nothing: a claim follows every wait.
        await self._server.listen(seconds, "BLPOP", f"{self._server.url.tag}:wake:{worker.id}")

    # -- facts -----------------------------------------------------------------------------

    async def facts(self) -> Facts:
        return operate.facts_of(await self._read("facts"))

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        await self._run("configure", queue, operate.settings_text(settings))

    async def pause(self, queue: str, *, paused: bool) -> None:
        await self._run("pause", queue, int(paused))

    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        which = "declared" if declared else "set"
        await self._run("set_limit", spell_limit(name), which, named_limits.limit_text(limit))

    async def pause_limit(self, name: str, seconds: float, *, at_least: bool = False) -> None:
        await self._run("pause_limit", spell_limit(name), float_text(seconds), int(at_least))

    async def spend(self, name: str, cost: int) -> None:
        await self._run("spend", spell_limit(name), str(cost))

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        if not counts:
            return {}
        packed = await self._run("count", *operate.count_values(counts))
        return operate.healths_of(UNPACK.decode(packed))

    async def counts(self) -> Counts:
        return operate.counts_of(await self._read("counts"))

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        values = operate.switch_values(before, after)
        return bool(await self._run("switch", operate.region_name(queue, region), *values))

    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        kept = () if value is None else (value,)
        await self._run("note", key, float_text(keep), *kept)

    async def notes(self, prefix: str) -> dict[str, bytes]:
        keys, values = await self._read("notes", prefix)
        return dict(zip((key.decode() for key in keys), values, strict=True))

    async def reschedule(self, change: Reschedule) -> bool:
        return await reschedule(self._run, change)

    async def schedules(self) -> dict[str, bytes]:
        return schedules_of(await self._read_key("HGETALL", "schedules"))

    # -- reading ---------------------------------------------------------------------------

    async def get(self, job: str) -> Job | None:
        found = await self._read("get", job)
        return None if found is None else job_of(job, found)

    async def statuses(self, jobs: Sequence[str]) -> dict[str, Status]:
        check_batch(len(jobs))
        return read.statuses_of(jobs, await self._read("statuses", *jobs))

    async def watch(self, job: str, tell: Tell) -> Watch:
        return await self._subscriber.watch(job, tell)

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        return read.arrivals_of(await self._read_key("HGETALL", f"arrived:{job}"))

    async def records(self, job: str, most: int | None = None) -> list[Record]:
        return record.records_of(
            await self._read("records", job, -1 if most is None else most), most
        )

    async def history(self, job: str) -> list[Attempt]:
        entries = await self._read_key("LRANGE", f"history:{job}", 0, -1)
        return [attempt_of(entry) for entry in entries]

    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        return await read.read_page(self._read, selection, limit, after, bodies=bodies, looks=looks)

    async def stats(self) -> Stats:
        return read.stats_of(await self._read("stats"))

    async def limits(self, most: int) -> list[LimitView]:
        return named_limits.limits_of(await self._read("limits", most))

    async def keys(self, queue: str, most: int) -> list[KeyView]:
        return named_limits.keys_of(await self._read("keys", escape(queue), most))

    async def depth(self, lane: Lane, limit: int) -> int:
        return int(await self._read("depth", lane_name(lane), limit))

    async def ahead(self, job: str) -> int:
        count = int(await self._read("ahead", job))
        if count < 0:
            raise UnknownJobError(f"no job {job!r} is stored")
        return count

    async def tail(self, lane: Lane, due: float) -> str | None:
        last = await self._read("tail", lane_name(lane), float_text(due))
        return None if last is None else str(last.decode())

    # -- operating -------------------------------------------------------------------------

    async def replay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        return await self._each("replay", jobs, int(from_start))

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        return await self._each("cancel", jobs, reason)

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        check_batch(len(jobs))
        values = [value for each in jobs for value in operate.adopt_values(each)]
        return [taken == 1 for taken in await self._run("adopt", *values)]

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        return await self._each("purge", jobs)

    async def _fail(self, invalid: Sequence[Dead], worker: Worker) -> None:
        """End what the worker has claimed and cannot read."""
        if invalid:
            await validate.fail_invalid(self._run, invalid, worker.id)

    async def _each(self, name: str, jobs: Sequence[str], *values: Value) -> list[bool]:
        check_batch(len(jobs))
        return [done == 1 for done in await self._run(name, *values, *jobs)]

    async def _read_key(self, command: str, key: str, *values: Value) -> Any:
        """What a plain command finds; nothing where the value is of a wrong type."""
        try:
            return await self._server.command(command, f"{self._server.url.tag}:{key}", *values)
        except StoreError as error:
            if not validate.is_wrong_type(error):
                raise
        return []

    async def _read(self, name: str, *values: Value) -> Any:
        """Run a script that only reads; it finds nothing where a value is of a wrong type."""
        try:
            return await self._server.read(name, self._now(), *values)
        except StoreError as error:
            if not validate.is_wrong_type(error):
                raise
        return await self._server.read(name, self._now(), *values, tolerant=True)

    async def _run(self, name: str, *values: Value) -> Any:
        """Run a script; once more when values of a wrong type stopped it and were moved away."""
        try:
            return await self._server.run(name, self._now(), *values)
        except StoreError as error:
            wrong = validate.is_wrong_type(error)
            if not (wrong and await validate.move_wrong_types(self._server, self._now())):
                raise
        return await self._server.run(name, self._now(), *values)

    def _now(self) -> str:
        """The time of an injected clock; nothing where the server's own decides."""
        return "" if self._clock is None else repr(round(self._clock(), 6))
