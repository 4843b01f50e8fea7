"""Attempts that never suspend share a task, and cannot tell."""

import asyncio
import time
from collections.abc import Sequence
from contextvars import ContextVar

import pytest
from msgspec.structs import replace

from mulligan import Mulligan, Settings, current_job
from mulligan.core.answers import Claimed
from mulligan.core.job import Lease
from mulligan.core.outcome import Outcome, Returned, Verdict
from mulligan.core.plan import ClaimPlan
from mulligan.core.trail import Trail
from mulligan.core.worker import Worker
from mulligan.engine import claim_runner
from mulligan.engine.claim_runner import TURN
from mulligan.stores.memory import MemoryStore
from tests.engine.running import ended, engine

LEFT_BEHIND: ContextVar[str] = ContextVar("left_behind", default="nothing")


class Watched(MemoryStore):
    """Remembers how many were claimed at a time, and which were given back."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.held = self.most_held = 0
        self.returned: list[str] = []

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        claimed = await super().claim(plan, worker)
        self.sizes.append(len(claimed.claims))
        return claimed

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        self.returned += [each.lease.job for each in outcomes if isinstance(each, Returned)]
        return await super().commit(outcomes)


async def enqueued(app: Mulligan, store: MemoryStore, task, count: int) -> list[str]:
    jobs = [task.call(number).job for number in range(count)]
    await store.enqueue(jobs)
    return [job.id for job in jobs]


async def test_each_attempt_has_a_context_of_its_own():
    app, store = Mulligan("memory://"), MemoryStore()
    seen = []

    @app.task
    async def leave(number: int) -> None:
        seen.append((LEFT_BEHIND.get(), current_job().id))
        LEFT_BEHIND.set(f"something of {number}")

    jobs = await enqueued(app, store, leave, 5)
    async with engine(app, store):
        assert await ended(store, *jobs) == ["done"] * 5
    assert seen == [("nothing", job) for job in jobs]


async def test_an_attempt_that_suspends_keeps_its_task_and_its_context():
    app, store = Mulligan("memory://"), MemoryStore()
    seen = []

    @app.task
    async def nap(number: int) -> None:
        LEFT_BEHIND.set(str(number))
        before = asyncio.current_task()
        async with asyncio.timeout(60):
            await asyncio.sleep(0.01)
        seen.append((number, LEFT_BEHIND.get(), asyncio.current_task() is before, before))

    jobs = await enqueued(app, store, nap, 10)
    async with engine(app, store):
        assert await ended(store, *jobs) == ["done"] * 10
    assert sorted(each[:3] for each in seen) == [(n, str(n), True) for n in range(10)]
    assert len({id(each[3]) for each in seen}) == 10


async def test_a_timeout_inside_a_task_that_suspends_first_strikes_that_attempt_alone():
    app, store = Mulligan("memory://"), MemoryStore()
    struck = []

    @app.task
    async def impatient(number: int) -> None:
        try:
            async with asyncio.timeout(0.01 if number == 1 else 60):
                await asyncio.sleep(0.05)
        except TimeoutError:
            struck.append(number)

    jobs = await enqueued(app, store, impatient, 4)
    async with engine(app, store):
        assert await ended(store, *jobs) == ["done"] * 4
    assert struck == [1]


async def test_an_attempt_that_cancels_its_own_task_does_not_cancel_the_next():
    app, store = Mulligan("memory://"), MemoryStore()

    @app.task
    async def rash(number: int) -> int:
        task = asyncio.current_task()
        if number == 0 and task is not None:
            task.cancel()
        return number

    jobs = await enqueued(app, store, rash, 5)
    async with engine(app, store):
        assert await ended(store, *jobs) == ["done"] * 5
    found = [await store.get(job) for job in jobs]
    assert [job.retry_count for job in found if job] == [0] * 5


class Crowd:
    """How many are within at a time, at most."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def __enter__(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        self.now -= 1


def never_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, attempts are not."""
    for limit in ("TURN", "SLOW"):
        monkeypatch.setattr(claim_runner, limit, 60.0)


async def test_a_task_that_suspends_never_runs_on_more_slots_than_there_are(monkeypatch):
    never_slow(monkeypatch)
    app, store, crowd = Mulligan("memory://"), Watched(), Crowd()

    @app.task
    async def sometimes(number: int) -> None:
        with crowd:
            if number >= 300:  # by then claims bring more than there are slots
                await asyncio.sleep(0.001)

    jobs = await enqueued(app, store, sometimes, 400)
    async with engine(app, store, Settings(lease=5, beat=0.1, concurrency=10)):
        assert set(await ended(store, *jobs)) == {"done"}
    assert max(store.sizes) > 10
    assert crowd.most <= 10
    found = [await store.get(job) for job in jobs]
    assert {job.retry_count for job in found if job} == {0}
    assert store.returned  # what was claimed without a slot was left to others


async def test_attempts_behind_one_that_cancels_its_own_task_get_no_slots_more(monkeypatch):
    never_slow(monkeypatch)
    app, store, crowd = Mulligan("memory://"), Watched(), Crowd()

    @app.task
    async def rash(number: int) -> None:
        task = asyncio.current_task()
        if number == 300 and task is not None:
            task.cancel()
        with crowd:
            if number > 300:
                await asyncio.sleep(0.001)

    jobs = await enqueued(app, store, rash, 400)
    async with engine(app, store, Settings(lease=5, beat=0.1, concurrency=10)):
        assert set(await ended(store, *jobs)) == {"done"}
    assert max(store.sizes) > 10
    assert crowd.most <= 10


@pytest.mark.parametrize("slots", [1, 2, 10])
async def test_tasks_that_suspend_get_no_slots_more_where_others_made_claims_large(
    monkeypatch, slots
):
    never_slow(monkeypatch)
    app, store, crowd = Mulligan("memory://"), Watched(), Crowd()

    @app.task
    async def suspends(number: int) -> None:
        with crowd:
            await asyncio.sleep(0.0001)

    @app.task
    async def never_does(number: int) -> None: ...

    known = await enqueued(app, store, suspends, 1)
    async with engine(app, store, Settings(lease=5, beat=0.1, concurrency=slots)):
        await ended(store, *known)
        quick = await enqueued(app, store, never_does, 1000)
        slow = await enqueued(app, store, suspends, 200)
        assert set(await ended(store, *quick, *slow)) == {"done"}
    assert max(store.sizes) > slots
    assert crowd.most <= slots
    found = [await store.get(job) for job in slow]
    assert {job.retry_count for job in found if job} == {0}


async def test_a_slow_line_claims_for_free_slots_only():
    app, store = Mulligan("memory://"), Watched()

    @app.task
    async def slow(number: int) -> None:
        end = time.thread_time() + 1.5 * TURN
        while time.thread_time() < end:
            pass

    jobs = await enqueued(app, store, slow, 20)
    async with engine(app, store, Settings(lease=5, beat=0.1, concurrency=2)):
        assert set(await ended(store, *jobs)) == {"done"}
    assert max(store.sizes) <= 2


async def test_an_attempt_whose_lease_is_lost_while_it_stands_in_line_does_not_start():
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
