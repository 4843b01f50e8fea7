"""The workers that reach the store through this server, and how they claim."""

import asyncio
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Any

from msgspec.json import encode

from mulligan.core.answers import Beat, Claimed
from mulligan.core.checks import check_name, check_region
from mulligan.core.facts import Facts
from mulligan.core.job import Claim, Lease
from mulligan.core.known_tasks import (
    KEEP_KNOWLEDGE,
    KNOWS,
    NO_SIGNATURE,
    REGISTER_EVERY,
    Registration,
    read_registrations,
)
from mulligan.core.outcome import Returned
from mulligan.core.worker import Worker
from mulligan.engine.claim_planner import ClaimPlanner
from mulligan.engine.fetcher import LONGEST_SLEEP
from mulligan.server.joins import Joins
from mulligan.server.problems import Refusal
from mulligan.server.shapes.workers import Join
from mulligan.stores.contract import Store

# How many sessions to keep; beyond it the least recent is read from the store again when needed.
REMEMBERED = 10_000
BEATS_PER_LEASE = 3
FACTS_AGE = 5.0
Gone = Callable[[], Awaitable[None]]


class Session:
    """A worker, its claim planner, and when it was last known to be alive.

    `tasks` are those that it runs, as far as it has said; `registered_at` is when that was noted.
    """

    def __init__(self, worker: Worker, principal: bytes, tasks: Iterable[str] = ()) -> None:
        self.worker = worker
        self.principal = principal
        self.tasks = dict.fromkeys(tasks, NO_SIGNATURE)
        self.registered_at = -REGISTER_EVERY
        self.planner = ClaimPlanner(worker)
        self.claiming = asyncio.Lock()
        self.beaten_at = -worker.lease


class Sessions:
    """The workers of this server; one that came from another server is read from the store."""

    def __init__(self, store: Store, stopping: asyncio.Event) -> None:
        self._store = store
        self._stopping = stopping
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._facts: Facts | None = None
        self._facts_at = 0.0
        self._joins = Joins(store)
        self._joining = asyncio.Lock()

    async def join(self, asked: Join, lease: float, principal: bytes) -> Session:
        """Add a new worker, which the store knows when this returns."""
        worker = Worker(
            id=new_worker_id(asked.name, principal),
            region=check_region(asked.region, anywhere=False),
            queues=tuple(dict.fromkeys(check_name("queue", queue) for queue in asked.queues)),
            lease=lease,
            concurrency=asked.concurrency,
            only=asked.only,
            name=asked.name,
        )
        tasks = [check_name("task", task) for task in asked.tasks]
        async with self._joining:
            await self._joins.check(
                worker, tasks, partial(is_owner, principal=principal), self._live_of(principal)
            )
            session = self._remember(Session(worker, principal, tasks))
            await self.beat(session, [])
        return session

    def _live_of(self, principal: bytes) -> Iterator[tuple[Worker, Iterable[str]]]:
        """The live workers of a token that this server knows, with their tasks."""
        now = monotonic()
        for session in self._known.values():
            worker = session.worker
            if session.principal == principal and now - session.beaten_at < worker.lease:
                yield worker, session.tasks

    async def of(self, worker: str, principal: bytes) -> Session:
        """The worker's session; refuses one that neither this server nor the store knows."""
        check_owner(worker, principal)
        session = self._known.get(worker)
        if session is not None:
            self._known.move_to_end(worker)
            return session
        for view in (await self._store.stats()).workers:
            if view.worker.id == worker and view.worker.queues:
                known = read_registrations(await self._store.notes(KNOWS))
                tasks = [task for each in known if each.worker == worker for task in each.tasks]
                return self._remember(Session(view.worker, principal, tasks))
        raise unknown(worker)

    async def leave(self, worker: str, principal: bytes) -> None:
        """Forget a worker that stopped on purpose."""
        session = await self.of(worker, principal)
        self._known.pop(worker, None)
        await self._store.leave(session.worker)
        self._joins.forget()
        await self._register(session, left=True)

    async def beat(self, session: Session, holding: Sequence[Lease]) -> Beat:
        """Keep all leases of the worker."""
        beat = await self._store.beat(session.worker, holding)
        session.beaten_at = monotonic()
        self._take_in(beat.facts)
        if monotonic() - session.registered_at >= REGISTER_EVERY:
            await self._register(session)
        return beat

    async def _register(self, session: Session, *, left: bool = False) -> None:
        """Note which tasks the worker runs, if it has said so; `left` says that it leaves."""
        if not session.tasks:
            return
        session.registered_at = monotonic()
        worker, now = session.worker, (await self.known_facts()).now
        mine = Registration(worker.id, now, worker.queues, session.tasks, left)
        await self._store.note(mine.note, encode(mine), KEEP_KNOWLEDGE)

    async def known_facts(self) -> Facts:
        """The facts for plans and decisions; the store refuses a plan from old facts."""
        if self._facts is None or monotonic() - self._facts_at > FACTS_AGE:
            self._take_in(await self._store.facts())
        assert self._facts is not None  # noqa: S101 - just read
        return self._facts

    def _take_in(self, facts: Facts) -> None:
        self._facts, self._facts_at = facts, monotonic()

    async def claim(self, session: Session, limit: int, wait: float, gone: Gone) -> Sequence[Claim]:
        """Jobs for the worker, as soon as there are any; none when the time is up.

        While it waits the worker is alive. If the client is gone when jobs come, they are given
        back.
        """
        until = monotonic() + wait
        async with session.claiming:
            claimed = await self._ask(session, limit)
            if claimed.claims or wait <= 0:
                await self._stop_waiting(session, claimed, limit)
                return claimed.claims
            leaving = asyncio.ensure_future(gone())
            try:
                while not claimed.claims and (left := until - monotonic()) > 0:
                    await self._sleep(session, claimed, left, leaving)
                    if leaving.done() or self._stopping.is_set():
                        break
                    claimed = await self._ask(session, limit)
                await self._stop_waiting(session, claimed, limit)
                if leaving.done() and claimed.claims:
                    await self._store.commit([Returned(claim.lease) for claim in claimed.claims])
                    return ()
                return claimed.claims
            finally:
                leaving.cancel()

    async def _ask(self, session: Session, limit: int) -> Claimed:
        """One claim, planned from facts that the store agrees with."""
        worker = session.worker
        if monotonic() - session.beaten_at > worker.lease / BEATS_PER_LEASE:
            await self.beat(session, [])
        while True:
            facts = await self.known_facts()
            plan = session.planner.plan(limit, facts)
            claimed = await self._store.claim(plan, worker)
            if not claimed.stale:
                session.planner.settle(plan, claimed.claims, claimed.left, facts)
                return claimed
            self._take_in(await self._store.facts())

    async def _stop_waiting(self, session: Session, claimed: Claimed, limit: int) -> None:
        """Stop waiting, so that another worker is woken."""
        if len(claimed.claims) < limit:
            await self._ask(session, 0)

    async def _sleep(
        self, session: Session, claimed: Claimed, left: float, leaving: "asyncio.Future[None]"
    ) -> None:
        """Sleep until the store wakes the worker, or the client or the server is gone."""
        nap = min(left, LONGEST_SLEEP, session.worker.lease / BEATS_PER_LEASE)
        if claimed.again_in is not None:
            nap = min(nap, claimed.again_in)
        ringing = asyncio.ensure_future(self._store.wait(session.worker, nap))
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            waiting: list[asyncio.Future[Any]] = [ringing, stopped, leaving]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if ringing.done():
                ringing.result()
        finally:
            ringing.cancel()
            stopped.cancel()
            await asyncio.gather(ringing, stopped, return_exceptions=True)

    def _remember(self, session: Session) -> Session:
        self._known[session.worker.id] = session
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return session


def new_worker_id(name: str, principal: bytes) -> str:
    """An id that ends with a MAC by the token that joined: only that token may act for the worker.

    Every server of the store can check it. No worker in process has such an id.
    """
    run = f"{name}-{secrets.token_hex(6)}"
    return f"{run}-{mac_of(run, principal)}"


def check_owner(worker: str, principal: bytes) -> None:
    """Refuse to act for a worker that joined with another token, or not over HTTP."""
    if not is_owner(worker, principal):
        raise unknown(worker)


def is_owner(worker: str, principal: bytes) -> bool:
    """Whether the worker joined with this token."""
    run, _, sealed = worker.rpartition("-")
    return hmac.compare_digest(mac_of(run, principal).encode(), sealed.encode())


def mac_of(run: str, principal: bytes) -> str:
    """The first 80 bits of a MAC, which only the holder of the token can make."""
    return hmac.digest(b"mulligan worker\n" + principal, run.encode(), "sha256").hex()[:20]


def unknown(worker: str) -> Refusal:
    """The refusal to act for an unknown worker, or for one of another token."""
    return Refusal(
        "unknown", f"worker {worker!r} has not joined with this token, or has left; join again"
    )
