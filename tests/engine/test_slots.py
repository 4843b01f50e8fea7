"""Who holds a slot, who is stopped, and who runs alone."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from mulligan import Mulligan, Settings, current_job
from mulligan.core.answers import Claimed
from mulligan.core.job import Lease
from mulligan.core.outcome import Outcome, Verdict
from mulligan.core.plan import ClaimPlan
from mulligan.core.retry import Trail
from mulligan.core.worker import Worker
from mulligan.stores.memory import MemoryStore
from tests.engine.real_engine import ended, engine, enqueued


async def test_an_attempt_whose_lease_is_lost_before_its_turn_does_not_start():
    app, store = Mulligan("memory://"), MemoryStore()
    started: list[Lease] = []
    abandoned: list[Lease] = []

    @app.task
    async def work(number: int) -> None:
        started.append(Lease(current_job().id, current_job().token))
        if number == 0:
            abandoned.extend(set(running.slots.holding) - set(started))
            running.slots.abandon(abandoned)

    jobs = await enqueued(app, store, work, 3)
    async with engine(app, store) as running:
        assert await ended(store, *jobs) == ["done"] * 3  # in the end, under other leases
    assert {lease.job for lease in abandoned} == set(jobs[1:])
    assert not set(started) & set(abandoned)


async def test_an_attempt_whose_lease_is_lost_just_as_it_starts_leaves_its_slot():
    app, store = Mulligan("memory://"), MemoryStore()
    started: list[str] = []

    @app.task
    async def work(number: int) -> None:
        started.append(current_job().id)
        await asyncio.sleep(0)

    async with engine(app, store, Settings(lease=5, beat=0.1, concurrency=1)) as running:
        known = await enqueued(app, store, work, 1)
        await ended(store, *known)
        [lost] = await enqueued(app, store, work, 1)
        claims = (await store.claim(running.fetcher._plan(1, frozenset()), running.worker)).claims
        assert [claim.id for claim in claims] == [lost]  # nobody else has had a turn
        running.executor.start(claims)
        running.slots.abandon([claim.lease for claim in claims])
        await store.cancel([lost], "no longer wanted")
        more = await enqueued(app, store, work, 3)
        assert await ended(store, *more) == ["done"] * 3
        assert running.slots.holding == []
    assert started == [*known, *more]


async def test_a_drain_does_not_start_a_suspect_that_waits_for_others_to_leave():
    app, store = Mulligan("memory://"), MemoryStore()
    began, leave = asyncio.Event(), asyncio.Event()
    started: list[str] = []

    @app.task
    async def work(number: int) -> None:
        started.append(current_job().id)
        if number == 0:
            began.set()
            await leave.wait()

    jobs = await enqueued(app, store, work, 1)
    async with engine(app, store) as running:
        await began.wait()
        [suspect] = await enqueued(app, store, work, 1)
        found = await store.claim(running.fetcher._plan(1, frozenset()), running.worker)
        lost = replace(found.claims[0], trail=Trail(("default",), 0.0, 1).write())
        running.executor.start([lost])
        running.stop()
        leave.set()
    assert started == jobs
    assert [job.status for job in [await store.get(suspect)] if job] == ["pending"]


class Suspecting(MemoryStore):
    """Says of the first job that it was lost before, and takes its time to write."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        claimed = await super().claim(plan, worker)
        if self.written or not claimed.claims:
            return claimed
        first, *others = claimed.claims
        lost = replace(first, trail=Trail(("default",), 0.0, 2).write())
        return replace(claimed, claims=[lost, *others])

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        for _ in range(100):
            await asyncio.sleep(0)
        self.written += [each.lease.job for each in outcomes]
        return await super().commit(outcomes)


async def test_a_suspect_starts_when_it_is_written_that_the_others_were_given_back():
    app, store = Mulligan("memory://"), Suspecting()
    written: list[list[str]] = []

    @app.task
    async def work(_number: int) -> None:
        written.append(list(store.written))

    suspect, other = await enqueued(app, store, work, 2)
    async with engine(app, store):
        assert await ended(store, suspect, other) == ["done", "done"]
    assert written[0] == [other]
