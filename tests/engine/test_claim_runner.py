"""Attempts that never suspend share a task, and cannot tell."""

import asyncio
import time
from contextvars import ContextVar

import pytest

from mulligan import Mulligan, Settings, current_job
from mulligan.engine import claim_runner
from mulligan.engine.claim_runner import TURN
from mulligan.stores.memory import MemoryStore
from tests.engine.real_engine import Watched, ended, engine, enqueued

LEFT_BEHIND: ContextVar[str] = ContextVar("left_behind", default="nothing")


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
