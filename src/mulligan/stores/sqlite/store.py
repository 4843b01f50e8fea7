"""The store: each operation of the contract is one transaction, run by a function of its own."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, TypeVar

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.finding import Finding
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Attempt, Claim, Enqueued, Job, Lease, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView, Limit, LimitView
from mulligan.core.outcome import Done, Outcome, Verdict
from mulligan.core.page import LOOKS, Page, Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.record import Record
from mulligan.core.stats import Stats
from mulligan.core.worker import Worker
from mulligan.stores.batches import batches_of
from mulligan.stores.rules.store import Rule, RuleStore
from mulligan.stores.sqlite import named_limits, operate, read, wakeup, workers
from mulligan.stores.sqlite.claim import claim
from mulligan.stores.sqlite.clock import ClockGuard
from mulligan.stores.sqlite.commit import commit, commit_within
from mulligan.stores.sqlite.connection import Work
from mulligan.stores.sqlite.doctor import examine
from mulligan.stores.sqlite.enqueue import enqueue
from mulligan.stores.sqlite.rows import apply
from mulligan.stores.sqlite.runner import Runner
from mulligan.stores.sqlite.sockets import WakeSocket, is_any_worker_alive
from mulligan.stores.sqlite.transaction import Ended, Transaction, WakeUp, WorkError
from mulligan.stores.sqlite.url import parse
from mulligan.stores.sqlite.user_transaction import enqueue_in, refuse_async
from mulligan.stores.sqlite.watch import Watchers
from mulligan.stores.watches import Tell, Watch

# How often a sleeper looks by itself, for what wakes it and sends it no datagram.
LOOK_EVERY = 0.25


T = TypeVar("T")


class SqliteStore(RuleStore):
    """One file, many processes; `clock` may be injected.

    A clock that is injected is trusted, unless `monotonic` is given to compare it with.

    Threads and event loops may share one object. With `inline` each operation is done at once by
    whoever asks, without an event loop: right for plain code, which waits for it anyway.
    """

    def __init__(
        self,
        url: str = "sqlite://",
        clock: Callable[[], float] = time.time,
        *,
        inline: bool = False,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self.url = url
        self._url = parse(url)
        self._clock = clock
        self._socket = WakeSocket(self._url)
        self._watchers = Watchers(self._url)
        if monotonic is None and clock is time.time:
            monotonic = time.monotonic
        guard = None
        if monotonic is not None:
            others_live = partial(is_any_worker_alive, self._url.path)
            guard = partial(ClockGuard, self._url.path, clock, monotonic, others_live)
        self._runner = Runner(self._url, clock, self._wake, inline=inline, guard=guard)
        self._look_every = inf if self._url.in_memory else LOOK_EVERY
        # Workers whose wait ended because they were woken, until their next claim.
        self._woken: set[str] = set()

    async def open(self, *, read_only: bool = False) -> None:
        """Open the file, or make it, and bring its schema up to date; neither to read it only."""
        self._watchers.read_only = read_only
        await self._runner.open(read_only=read_only)

    async def close(self) -> None:
        """Let go of the file, the thread and the socket."""
        await self._runner.close()
        self._socket.close()
        self._watchers.close()

    async def carry_out(self, rule: Rule[T], *args: Any, **options: Any) -> T:
        answer: T = await self._runner.run(lambda tx: apply(tx, rule, *args, **options))
        return answer

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        answers: list[Enqueued] = await self._runner.run(partial(enqueue, jobs=jobs))
        return answers

    def enqueue_here(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As `enqueue`, for plain code: without a coroutine, which takes a quarter of the time."""
        return self._runner.write_here(partial(enqueue, jobs=jobs))

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As the contract says; only the last batch waits for the disk, and so for all of them."""
        *first, last = batches_of(jobs) or [jobs]
        answers: list[Enqueued] = []
        for batch in first:
            answers += await self._runner.run(partial(enqueue, jobs=batch), durable=False)
        return answers + await self.enqueue(last)

    async def identity(self) -> str:
        """The file."""
        return self._url.path

    def enqueue_in(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        identity: Callable[[], str] | None = None,
    ) -> list[Enqueued]:
        now, wake = self._clock(), self._wake
        return enqueue_in(self._url, now, connection, jobs, identity=identity, wake=wake)

    async def aenqueue_in(self, connection: Any, *_: Any) -> list[Enqueued]:
        refuse_async(connection)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        work = partial(claim, plan=plan, worker=worker, socket=self._socket.path)
        claimed: Claimed = await self._runner.run(work, durable=False)
        if not claimed.stale:
            self._woken.discard(worker.id)
        return claimed

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        verdicts: list[Verdict] = await self._runner.run(partial(commit, outcomes=outcomes))
        return verdicts

    async def commit_within(self, outcome: Done, work: Callable[[Any], Any]) -> Verdict:
        """Have the work done on the store's connection, and write the outcome, as one.

        The work is a plain function. It runs on the store's thread, where it may use any table of
        the file, but neither ends the transaction nor calls the store. What it raises is raised
        here as it is, and nothing is written; where the lease is not held it is not called.
        """
        call = partial(commit_within, outcome=outcome, work=work)
        try:
            verdict: Verdict = await self._runner.run(call, alone=True)
        except WorkError as failed:
            error = failed.error
        else:
            return verdict
        raise error

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        work = partial(workers.beat, worker=worker, holding=holding)
        answer: Beat = await self._runner.run(work)
        return answer

    async def leave(self, worker: Worker) -> None:
        await self._runner.run(partial(workers.leave, worker=worker), durable=False)

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        work = partial(workers.reclaim, limit=limit, worker=worker)
        claims: list[Claim] = await self._runner.run(work, durable=False)
        return claims

    async def promote(self, limit: int) -> int:
        number: int = await self._runner.run(partial(operate.promote, limit=limit))
        return number

    async def prune(self, keep_done: float, limit: int) -> int:
        work = partial(operate.prune, keep_done=keep_done, limit=limit)
        number: int = await self._runner.run(work)
        return number

    async def wait(self, worker: Worker, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        with self._socket.waiting(worker.id) as event:
            version, woken = await self._look(worker.id)
            while not woken and (rest := deadline - asyncio.get_running_loop().time()) > 0:
                try:
                    async with asyncio.timeout(min(rest, self._look_every)):
                        await event.wait()
                    woken = True
                except TimeoutError:
                    version, woken = await self._look(worker.id, version)
        if woken:
            # Until its next claim the database says so, but it must not end another wait.
            self._woken.add(worker.id)

    async def _look(self, worker: str, before: int | None = None) -> tuple[int, bool]:
        """A number that changes when others write, and whether the worker was woken."""

        def look(tx: Transaction) -> tuple[int, bool]:
            version = wakeup.data_version(tx)
            return version, version != before and wakeup.is_woken(tx, worker)

        version, woken = await self._runner.run(look, writes=False)
        return version, woken and worker not in self._woken

    def _wake(self, wakeups: Sequence[WakeUp | Ended]) -> list[Work]:
        """Wake each; gives what is to be done about those who are dead."""
        dead: list[Work] = []
        for each in wakeups:
            if isinstance(each, Ended):
                self._watchers.tell(each.numbers)
            elif not self._socket.wake(each.worker, each.socket):
                dead.append(Work(partial(wakeup.wake_another, wakeup=each), writes=True))
        return dead

    async def facts(self) -> Facts:
        known: Facts = await self._runner.run(operate.facts, writes=False)
        return known

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        await self._runner.run(partial(operate.configure, queue=queue, settings=settings))

    async def pause(self, queue: str, *, paused: bool) -> None:
        await self._runner.run(partial(operate.pause, queue=queue, paused=paused))

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        health: dict[tuple[str, str], Health]
        health = await self._runner.run(partial(operate.count, counts=counts))
        return health

    async def counts(self) -> Counts:
        counts: Counts = await self._runner.run(operate.counts, writes=False)
        return counts

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        work = partial(operate.switch, queue=queue, region=region, before=before, after=after)
        switched: bool = await self._runner.run(work)
        return switched

    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        await self._runner.run(partial(operate.note, key=key, value=value, keep=keep))

    async def notes(self, prefix: str) -> dict[str, bytes]:
        work = partial(operate.notes, prefix=prefix)
        found: dict[str, bytes] = await self._runner.run(work, writes=False)
        return found

    async def schedules(self) -> dict[str, bytes]:
        records: dict[str, bytes]
        records = await self._runner.run(read.schedules, writes=False)
        return records

    async def get(self, job: str) -> Job | None:
        found: Job | None = await self._runner.run(partial(read.get, job=job), writes=False)
        return found

    async def statuses(self, jobs: Sequence[str]) -> dict[str, Status]:
        work = partial(read.statuses, jobs=jobs)
        found: dict[str, Status] = await self._runner.run(work, writes=False)
        return found

    async def watch(self, job: str, tell: Tell) -> Watch:
        number: int = await self._runner.run(partial(read.number_of, job=job), writes=False)
        return self._watchers.watch(number, tell)

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        work = partial(read.arrivals, job=job)
        found: dict[int, bytes | None] = await self._runner.run(work, writes=False)
        return found

    async def records(self, job: str, most: int | None = None) -> list[Record]:
        work = partial(read.records, job=job, most=most)
        found: list[Record] = await self._runner.run(work, writes=False)
        return found

    async def history(self, job: str) -> list[Attempt]:
        work = partial(read.history, job=job)
        attempts: list[Attempt] = await self._runner.run(work, writes=False)
        return attempts

    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        work = partial(
            read.page, selection=selection, limit=limit, after=after, bodies=bodies, looks=looks
        )
        page: Page = await self._runner.run(work, writes=False)
        return page

    async def doctor(self) -> list[Finding]:
        work = partial(examine, url=self._url)
        findings: list[Finding] = await self._runner.run(work, writes=False)
        return findings

    async def stats(self) -> Stats:
        stats: Stats = await self._runner.run(read.stats, writes=False)
        return stats

    async def limits(self, most: int) -> list[LimitView]:
        views: list[LimitView] = await self._runner.run(
            partial(named_limits.limits, most=most), writes=False
        )
        return views

    async def keys(self, queue: str, most: int) -> list[KeyView]:
        work = partial(named_limits.keys, queue=queue, most=most)
        views: list[KeyView] = await self._runner.run(work, writes=False)
        return views

    async def depth(self, lane: Lane, limit: int) -> int:
        work = partial(read.depth, lane=lane, limit=limit)
        number: int = await self._runner.run(work, writes=False)
        return number

    async def ahead(self, job: str) -> int:
        number: int = await self._runner.run(partial(read.ahead, job=job), writes=False)
        return number

    async def tail(self, lane: Lane, due: float) -> str | None:
        work = partial(read.tail, lane=lane, due=due)
        last: str | None = await self._runner.run(work, writes=False)
        return last

    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        work = partial(named_limits.set_limit, name=name, limit=limit, declared=declared)
        await self._runner.run(work)

    async def pause_limit(self, name: str, seconds: float, *, at_least: bool = False) -> None:
        work = partial(named_limits.pause_limit, name=name, seconds=seconds, at_least=at_least)
        await self._runner.run(work)

    async def spend(self, name: str, cost: int) -> None:
        await self._runner.run(partial(named_limits.spend, name=name, cost=cost))
