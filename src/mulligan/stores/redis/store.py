"""The Redis store: the contract's operations, each one script and one round trip."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.errors import InvalidError, StoreError, UnknownJobError
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import Breaker, Health
from mulligan.core.job import (
    Adopted,
    Attempt,
    Claim,
    Enqueued,
    Job,
    Lease,
    NewJob,
    all_created,
    encode,
)
from mulligan.core.lane import Lane
from mulligan.core.outcome import Dead, Outcome, Verdict
from mulligan.core.page import LOOKS, Page, Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.settings import BATCH_LIMIT, check_batch
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.batches import batch_by_batch
from mulligan.stores.redis import counting, decoding, doctor
from mulligan.stores.redis.address import read_address
from mulligan.stores.redis.adopting import adopt_values
from mulligan.stores.redis.claims import claimed_of, reclaimed_of
from mulligan.stores.redis.encoding import (
    JSON,
    asked_by,
    commit_values,
    escape,
    lane_name,
    runs_values,
    token_texts,
)
from mulligan.stores.redis.inbox import Inbox
from mulligan.stores.redis.paging import read_page
from mulligan.stores.redis.server import Server, Value
from mulligan.stores.redis.spoilt import is_of_other_kind, set_aside

LAYOUT, MOVED_LAYOUTS = "3", ("1", "2")
KEEP_DEAD_WORKERS = 86_400.0


class RedisStore:
    """Jobs in Redis or Valkey, under one prefix. A store object belongs to one event loop.

    The server's clock decides unless another is given. A lost connection raises
    StoreUnavailableError, and the next call makes a new one.
    """

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        self.url = url
        self._clock = clock
        self._server = Server(read_address(url))
        self._inbox = Inbox(self._server, self._now)
        # Who last claimed here, and so is likely to hold what is committed here.
        self._worker = ""

    async def open(self, *, read_only: bool = False) -> None:
        info = doctor.parse_info(await self._server.command("INFO"))
        level, sentence, remedy = doctor.version_finding(info)
        if level == "bad":
            raise StoreError(f"{self._server.address.shown}: {sentence}; {remedy}")
        self._server.knows_readers = doctor.version_of(info) >= doctor.KNOWS_READERS
        key = f"{self._server.address.tag}:layout"
        if not read_only:
            await self._server.command("SETNX", key, LAYOUT)
        layout = (await self._server.command("GET", key) or LAYOUT.encode()).decode()
        while layout in MOVED_LAYOUTS and not read_only:
            layout = (await self._run("migrate", BATCH_LIMIT)).decode()
        if layout in MOVED_LAYOUTS:
            raise StoreError(
                f"{self._server.address.shown} has keys of layout {layout}, and this release reads"
                f" {LAYOUT}; run: mulligan migrate"
            )
        if layout != LAYOUT:
            raise StoreError(
                f"{self._server.address.shown} has keys of layout {layout}, and this release"
                f" knows {LAYOUT}; use the newest mulligan everywhere, or another prefix"
            )

    async def close(self) -> None:
        await self._inbox.close()
        await self._server.close()

    async def doctor(self) -> list[Finding]:
        """What an operator should know of the server: (ok, warn or bad; sentence; remedy)."""
        return await doctor.examine(self._server)

    # -- jobs ------------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        check_batch(len(jobs))
        if not jobs:
            return []
        ids = [job.id for job in jobs]
        before = await self._run("enqueue", int(len(set(ids)) == len(ids)), *runs_values(jobs))
        enqueued = all_created(ids)
        for number, id_ in zip(before[::2], before[1::2], strict=True):
            enqueued[number] = Enqueued(id_.decode(), created=False)
        return enqueued

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return await batch_by_batch(self.enqueue, jobs)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        check_batch(plan.demand)
        self._inbox.listen()
        self._worker = worker.id
        asked = asked_by(plan)
        answer = await self._run("claim", *presented(worker), *asked.values)
        if answer is None:
            return Claimed([], stale=True)
        claimed, damaged = claimed_of(answer, asked.lanes, worker)
        if damaged:
            await self._condemn(damaged, worker)
        return claimed

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        check_batch(len(outcomes))
        if not outcomes:
            return []
        refused = await self._run("commit", self._worker, *commit_values(outcomes))
        verdicts: list[Verdict] = ["written"] * len(outcomes)
        for number, already in zip(refused[::2], refused[1::2], strict=True):
            verdicts[number] = "already" if already else "stale"
        return verdicts

    # -- workers ---------------------------------------------------------------------------

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        ids = [lease.job for lease in holding]
        tokens = token_texts(lease.token for lease in holding)
        packed, lost, forgotten, rows = await self._run(
            "beat", *presented(worker), len(ids), *ids, *tokens
        )
        reclaimed, damaged = reclaimed_of(rows)
        if damaged:
            await self._condemn(damaged, worker)
        return Beat(
            [holding[number] for number in lost],
            decoding.facts_of(packed),
            [
                Lease(id_.decode(), int(token))
                for id_, token in zip(forgotten[::2], forgotten[1::2], strict=True)
            ],
            reclaimed,
        )

    async def leave(self, worker: Worker) -> None:
        await self._run("leave", worker.id)

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        if limit <= 0:
            return []
        self._worker = worker.id
        reclaimed, damaged = reclaimed_of(await self._run("reclaim", *presented(worker), limit))
        if damaged:
            await self._condemn(damaged, worker)
        return reclaimed

    async def promote(self, limit: int) -> int:
        await self._inbox.drain()
        return int(await self._run("promote", limit))

    async def prune(self, keep_done: float, limit: int) -> int:
        return int(await self._run("prune", repr(float(keep_done)), limit, KEEP_DEAD_WORKERS))

    async def wait(self, worker: Worker, seconds: float) -> None:
        self._inbox.listen()
        # A ring that is lost as the time runs out costs nothing: a claim follows every wait.
        await self._server.listen(seconds, "BLPOP", f"{self._server.address.tag}:bell:{worker.id}")

    # -- facts -----------------------------------------------------------------------------

    async def facts(self) -> Facts:
        return decoding.facts_of(await self._read("facts"))

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        # As they read when they come back, so that 2 and 2.0 are the same settings.
        stored = JSON.encode(decoding.SETTINGS.decode(JSON.encode(settings)))
        await self._run("configure", queue, stored)

    async def pause(self, queue: str, *, paused: bool) -> None:
        await self._run("pause", queue, int(paused))

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        if not counts:
            return {}
        packed = await self._run("count", *counting.count_values(counts))
        return counting.healths_of(decoding.UNPACK.decode(packed))

    async def counts(self) -> Counts:
        return counting.counts_of(await self._read("counts"))

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        values = counting.switch_values(before, after)
        return bool(await self._run("switch", counting.place_name(queue, region), *values))

    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        kept = () if value is None else (value,)
        await self._run("note", key, repr(float(keep)), *kept)

    async def notes(self, prefix: str) -> dict[str, bytes]:
        keys, values = await self._read("notes", prefix)
        return dict(zip((key.decode() for key in keys), values, strict=True))

    # -- reading ---------------------------------------------------------------------------

    async def get(self, job: str) -> Job | None:
        found = await self._read("get", job)
        return None if found is None else decoding.job_of(job, found)

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        return decoding.arrivals_of(await self._look("HGETALL", f"arrived:{job}"))

    async def history(self, job: str) -> list[Attempt]:
        entries = await self._look("LRANGE", f"history:{job}", 0, -1)
        return [decoding.attempt_of(entry) for entry in entries]

    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        return await read_page(self._read, selection, limit, after, bodies=bodies, looks=looks)

    async def stats(self) -> Stats:
        return decoding.stats_of(await self._read("stats"))

    async def depth(self, lane: Lane, limit: int) -> int:
        return int(await self._read("depth", lane_name(lane), limit))

    async def ahead(self, job: str) -> int:
        count = int(await self._read("ahead", job))
        if count < 0:
            raise UnknownJobError(f"no job {job!r} is stored")
        return count

    async def tail(self, lane: Lane, due: float) -> str | None:
        last = await self._read("tail", lane_name(lane), repr(float(due)))
        return None if last is None else str(last.decode())

    # -- operating -------------------------------------------------------------------------

    async def replay(self, jobs: Sequence[str]) -> list[bool]:
        return await self._each("replay", jobs)

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        return await self._each("cancel", jobs, reason)

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        check_batch(len(jobs))
        values = [value for each in jobs for value in adopt_values(each)]
        return [taken == 1 for taken in await self._run("adopt", *values)]

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        return await self._each("purge", jobs)

    async def _condemn(self, damaged: Sequence[Dead], worker: Worker) -> None:
        """End what the worker holds and cannot read."""
        values = [part for each in damaged for part in (each.lease.job, encode(each.failure))]
        await self._run("condemn", worker.id, *values)

    async def _each(self, name: str, jobs: Sequence[str], *values: Value) -> list[bool]:
        check_batch(len(jobs))
        return [done == 1 for done in await self._run(name, *values, *jobs)]

    async def _look(self, command: str, key: str, *values: Value) -> Any:
        """What a plain command finds; nothing where another program keeps something else."""
        try:
            return await self._server.command(command, f"{self._server.address.tag}:{key}", *values)
        except StoreError as error:
            if not is_of_other_kind(error):
                raise
        return []

    async def _read(self, name: str, *values: Value) -> Any:
        """Run a script that only reads.

        Where another program keeps something else than mulligan does, it finds nothing.
        """
        try:
            return await self._server.read(name, self._now(), *values)
        except StoreError as error:
            if not is_of_other_kind(error):
                raise
        return await self._server.read(name, self._now(), *values, around=True)

    async def _run(self, name: str, *values: Value) -> Any:
        try:
            return await self._server.run(name, self._now(), *values)
        except StoreError as error:
            if not (is_of_other_kind(error) and await set_aside(self._server, self._now())):
                raise
        return await self._server.run(name, self._now(), *values)

    def _now(self) -> str:
        """The time of an injected clock; nothing where the server's own decides."""
        return "" if self._clock is None else repr(round(self._clock(), 6))


@lru_cache(maxsize=16)
def presented(worker: Worker) -> tuple[Value, ...]:
    """A worker as scripts know it."""
    for name, value in (("id", worker.id), ("region", worker.region)):
        if "\t" in value:
            raise InvalidError(f"worker {name} {value!r} has a tab; remove it")
    serves = ":".join(escape(name) for name in (worker.region, *worker.queues))
    return (worker.id, JSON.encode(worker), worker.region, serves, repr(float(worker.lease)))
