"""The store itself: each operation is one call of a function in the database."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.errors import StoreError, UnknownJobError
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import SLOT, WINDOW, Breaker, Health, changes_plans
from mulligan.core.job import Adopted, Attempt, Claim, Enqueued, Job, Lease, NewJob
from mulligan.core.lane import Lane
from mulligan.core.outcome import Done, Outcome, Verdict
from mulligan.core.page import LOOKS, Page, Selection, cursor_number
from mulligan.core.plan import ClaimPlan
from mulligan.core.settings import check_batch
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.batches import batches_of
from mulligan.stores.postgres import _decode, _doctor, _encode, _transaction
from mulligan.stores.postgres._answering import Connection
from mulligan.stores.postgres._arrays import numbers, texts
from mulligan.stores.postgres._bells import Bells
from mulligan.stores.postgres._commit import Committer
from mulligan.stores.postgres._connections import Connections, TooLargeError
from mulligan.stores.postgres._encode import micros
from mulligan.stores.postgres._migrate import check_version, migrate
from mulligan.stores.postgres._sender import Sender
from mulligan.stores.postgres._statements import Statements
from mulligan.stores.postgres._sweep import Sweeper
from mulligan.stores.postgres._url import read_url
from mulligan.stores.postgres._within import Within, Work

log = logging.getLogger("mulligan.store")

# how long a job may lie there after someone was called for it, before a sleeper comes unasked
PATIENCE = 1_000_000
LAST_PLACE = 2**63 - 1
RECENT = micros(WINDOW)


class PostgresStore:
    """All state in one schema of a PostgreSQL database; `clock` may be injected.

    A store belongs to one event loop. The server's clock decides unless one is injected.
    """

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        self.url = url
        self._clock = clock
        self._place = read_url(url)
        self._connections = Connections(self._place)
        # The first call of a function on a connection takes as long as many later ones: claims,
        # which jobs wait for, meet no connection that was made because others were busy.
        self._claiming = Connections(self._place)
        self._statements = Statements(self._place.schema)
        self._bells = Bells(self._connections, listen=self._place.listen)
        self._sweeper = Sweeper(self._connections)
        self._committer = Committer(self._connections, self._statements)
        self._sender = Sender(self._connections, self._statements, self._now)
        # nothing is prepared: work may send several statements at once
        self._working = Connections(self._place, prepares=False)
        self._within = Within(self._working, self._statements, self._now)

    async def open(self, *, read_only: bool = False) -> None:
        """Connect, look what stands in between, and bring the schema up to date."""
        self._connections.read_only = read_only

        async def prepare(connection: Connection) -> bool:
            if read_only:
                await check_version(connection, self._place.schema)
            else:
                await migrate(connection, self._place.schema)
            row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
            return row is not None and row[0] == connection.info.backend_pid

        # until it is known what stands in between, nothing is prepared
        self._connections.pooled = True
        try:
            direct = await self._connections.attempt(prepare)
        finally:
            await self._connections.close()
        self._connections.pooled = False
        if not direct and not (self._place.listen and await self._bells.test()):
            for connections in (self._connections, self._claiming, self._working):
                connections.pooled = True
            await self._check_arrays()
            self._bells.listen = False
            log.warning(
                "a connection pooler hands transactions of %s to changing server processes: no"
                " LISTEN and no prepared statements; workers poll instead",
                self._place.shown,
            )
        elif not self._place.listen:
            log.info("listen=off: workers poll %s instead of being woken", self._place.shown)

    async def _check_arrays(self) -> None:
        """Refuse sessions of a pooler's, which are not ours to change, that read NULL as a text."""
        [[nulls]] = await self._connections.run("SELECT current_setting('array_nulls')")
        if nulls != "on":
            raise StoreError(
                f"array_nulls is {nulls} at {self._place.shown}, and must be on; behind a pooler it"
                " is for the database to say: ALTER DATABASE … SET array_nulls = on"
            )

    async def close(self) -> None:
        """Let go of all connections."""
        await self._sweeper.close()
        await self._bells.close()
        for connections in (self._working, self._claiming, self._connections):
            await connections.close()

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        check_batch(len(jobs))
        if not jobs:
            return []
        [[before]] = await self._call("accept", *_encode.packed_columns(jobs))
        return _transaction.enqueued(jobs, before)

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        batches = batches_of(jobs)
        if len(batches) == 1:
            return await self.enqueue(jobs)
        return await self._sender.send(batches) if batches else []

    def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Enqueue in the caller's own transaction: a psycopg or SQLAlchemy connection or session.

        Committed, the jobs run; rolled back, they never were. A statement that fails makes the
        transaction fail, as any other would.
        """
        return _transaction.enqueue_in(connection, self._place.schema, self._now(), jobs)

    async def aenqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As `enqueue_in`, for the asynchronous connections of psycopg and SQLAlchemy."""
        return await _transaction.aenqueue_in(connection, self._place.schema, self._now(), jobs)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        check_batch(plan.demand)
        rows = await self._count_up(
            "claim",
            *(_me(worker), self._bells.channel, plan.epoch, plan.demand),
            *_encode.plan_arrays(plan),
        )
        answer = _decode.claimed(rows, plan.sources, worker)
        if not answer.stale:
            self._bells.claimed(worker.id)
        self._sweeper.killed("waiting", len(answer.claims))
        return answer

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        check_batch(len(outcomes))
        return await self._committer.commit(outcomes, self._now())

    async def commit_within(self, outcome: Done, work: Work) -> Verdict:
        """Have the work done on a connection, and write the outcome, in one transaction.

        `work` is called with a psycopg AsyncConnection, and not at all if the lease is no longer
        held or the outcome already written. What it raises is raised when all is undone.
        """
        return await self._within.commit(outcome, work)

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        [[lost, ids, tokens, *facts]] = await self._call(
            "beat",
            RECENT,
            _me(worker),
            texts([lease.job for lease in holding]),
            numbers([lease.token for lease in holding]),
        )
        unknown = [Lease(*pair) for pair in zip(ids or (), tokens or (), strict=True)]
        reclaimed = {each.lease: each for each in await self._reclaimed(unknown)}
        return Beat(
            [holding[at - 1] for at in lost or ()],
            _decode.facts(facts),
            [lease for lease in unknown if lease not in reclaimed],
            [reclaimed[lease] for lease in unknown if lease in reclaimed],
        )

    async def _reclaimed(self, leases: Sequence[Lease]) -> list[Claim]:
        """What was reclaimed, among jobs that their worker does not know of."""
        if not leases:
            return []
        ids = texts([lease.job for lease in leases])
        rows = await self._connections.run(self._statements["reclaimed"], (ids,))
        return [_decode.reclaimed(row) for row in rows]

    async def leave(self, worker: Worker) -> None:
        await self._call("leave", worker.id)
        self._bells.forget(worker.id)

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        return [
            _decode.reclaimed(row) for row in await self._count_up("reclaim", _me(worker), limit)
        ]

    async def promote(self, limit: int) -> int:
        [[many]] = await self._call("promote", limit)
        return int(many)

    async def prune(self, keep_done: float, limit: int) -> int:
        [[many]] = await self._call("prune", micros(keep_done), limit, RECENT)
        self._sweeper.killed("job", many)
        return int(many)

    async def wait(self, worker: Worker, seconds: float) -> None:
        async def look(*, heard: bool) -> bool:
            [[found]] = await self._call("look", worker.id, heard, PATIENCE)
            return bool(found)

        await self._bells.wait(worker.id, seconds, look)

    async def facts(self) -> Facts:
        [row] = await self._call("facts", RECENT)
        return _decode.facts(row)

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        encoded = msgspec.json.encode(settings).decode()
        await self._connections.run(self._statements["configure"], (queue, encoded))

    async def pause(self, queue: str, *, paused: bool) -> None:
        await self._connections.run(self._statements["pause"], (queue, paused))

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        if not counts:
            return {}
        queues, regions, names, values = zip(*counts, strict=True)
        columns = (texts(queues), texts(regions), texts(names), numbers(values))
        [[document]] = await self._call("count", micros(SLOT), RECENT, *columns)
        return _decode.healths(document)

    async def counts(self) -> Counts:
        rows = await self._call("counts", RECENT)
        ever = {(queue, region, name): value for queue, region, name, value, _ in rows}
        recent = {(queue, region, name): value for queue, region, name, _, value in rows}
        return Counts(ever, {key: value for key, value in recent.items() if value is not None})

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        [[done]] = await self._call(
            "switch",
            *(queue, region, before.open, micros(before.since), before.probes),
            *(micros(before.probed_at), after.open, after.probes, micros(after.probed_at)),
            changes_plans(before, after),
        )
        return bool(done)

    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        await self._call("note", key, value, micros(keep))

    async def notes(self, prefix: str) -> dict[str, bytes]:
        return dict(await self._call("notes", prefix))

    async def get(self, job: str) -> Job | None:
        rows = await self._connections.run(self._statements["get"], (job,))
        return _decode.job(rows[0]) if rows else None

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        return dict(await self._connections.run(self._statements["arrivals"], (job,)))

    async def history(self, job: str) -> list[Attempt]:
        rows = await self._connections.run(self._statements["history"], (job,))
        return [_decode.attempt(failure) for [failure] in rows]

    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        wanted = (selection.status, selection.queue, selection.region, selection.task)
        below = LAST_PLACE if after is None else cursor_number(after)
        last: int | None = None
        if selection.text is not None:  # down to the last of those that it is sought in
            one = (*wanted, None, below, 1, -LAST_PLACE, looks - 1)
            for [place] in await self._connections.run(self._statements["place_of_page"], one):
                last = place
        rows = await self._connections.run(
            self._statements["page" if bodies else "lean_page"],
            (*wanted, selection.text, below, limit + 1, -LAST_PLACE if last is None else last, 0),
        )
        if len(rows) > limit:
            last = _decode.place(rows[limit - 1])
        jobs = [_decode.job(row) for row in rows[:limit]]
        return Page(jobs, None if last is None else str(last))

    async def stats(self) -> Stats:
        [[document]] = await self._call("stats")
        return _decode.stats(document)

    async def depth(self, lane: Lane, limit: int) -> int:
        [[many]] = await self._call("depth", _encode.lane_name(lane), limit)
        return int(many)

    async def ahead(self, job: str) -> int:
        rows = await self._connections.run(self._statements["ahead"], (job,))
        if not rows:
            raise UnknownJobError(f"no job {job!r} is stored")
        return int(rows[0][0])

    async def tail(self, lane: Lane, due: float) -> str | None:
        values = (_encode.lane_name(lane), micros(due))
        [[last]] = await self._connections.run(self._statements["tail"], values)
        return None if last is None else str(last)

    async def replay(self, jobs: Sequence[str]) -> list[bool]:
        check_batch(len(jobs))
        [[answers]] = await self._call("replay", texts(jobs))
        return list(answers)

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        check_batch(len(jobs))
        [[answers]] = await self._count_up("cancel", texts(jobs), _encode.plain(reason))
        return list(answers)

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        check_batch(len(jobs))
        [[answers]] = await self._call("adopt", _encode.adopted_json(jobs))
        return list(answers)

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        check_batch(len(jobs))
        [[answers]] = await self._call("purge", texts(jobs))
        return list(answers)

    async def doctor(self) -> list[Finding]:
        """What is well and what is not, each with what to do about it; see docs/stores."""
        return await _doctor.examine(self._connections, self._bells)

    async def _call(self, function: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a function whose first argument is the time."""
        connections = self._claiming if function == "claim" else self._connections
        return await connections.run(self._statements[function], (self._now(), *values))

    async def _count_up(self, function: str, *values: Any) -> list[tuple[Any, ...]]:
        """As `_call`; tokens that another program set to the last number there is are renewed."""
        try:
            return await self._call(function, *values)
        except TooLargeError:
            await self._connections.run(self._statements["renew_tokens"])
            return await self._call(function, *values)

    def _now(self) -> int | None:
        return None if self._clock is None else micros(self._clock())


def _me(worker: Worker) -> str:
    return msgspec.json.encode(worker).decode()
