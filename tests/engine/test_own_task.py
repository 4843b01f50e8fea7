"""A coroutine takes its first step at once, and cannot tell: it has a task of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

import pytest

from mulligan import Mulligan, Settings, current_job
from mulligan.engine.claim_runner import OwnTask
from mulligan.stores.memory import MemoryStore
from tests.engine.real_engine import ended, engine, enqueued, held_claim
from tests.engine.test_claim_runner import LEFT_BEHIND


class Started:
    """The task of a coroutine that has taken its first step, and how often it has ended."""

    def __init__(
        self, work: Coroutine[Any, Any, None], then: Callable[[], object] = lambda: None
    ) -> None:
        self._then = then
        self._ends = 0
        held = held_claim("q1")
        OwnTask(work, self._end).start(asyncio.get_running_loop(), copy_context(), held)
        assert held.task is not None
        self.task = held.task

    def ended(self) -> int:
        """How often it has ended so far."""
        return self._ends

    def _end(self) -> None:
        self._ends += 1
        self._then()


async def test_the_first_step_is_taken_at_once_in_a_task_of_its_own():
    mine, seen = asyncio.current_task(), []

    async def work() -> None:
        seen.append(asyncio.current_task())
        async with asyncio.timeout(60):
            await asyncio.sleep(0.001)
        seen.append(asyncio.current_task())

    started = Started(work())
    assert seen == [started.task]
    assert asyncio.current_task() is mine
    assert started.ended() == 0
    await started.task
    assert seen == [started.task] * 2
    assert started.task is not mine
    assert started.ended() == 1


async def test_what_ends_with_its_first_step_has_ended_before_its_task_runs():
    async def work() -> None:
        pass

    started = Started(work())
    assert started.ended() == 1
    await started.task
    assert started.ended() == 1


@pytest.mark.parametrize("steps", [0, 1])
async def test_an_error_is_that_of_the_task(steps):
    async def work() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        raise ValueError("broken")

    started = Started(work())
    with pytest.raises(ValueError, match="broken"):
        await started.task
    assert started.ended() == 1


@pytest.mark.parametrize("rounds", [0, 1, 2])
@pytest.mark.parametrize("waits_for", ["time", "a round of the loop", "another task"])
async def test_a_cancellation_arrives_where_it_waits_however_soon_it_comes(rounds, waits_for):
    seen: list[str] = []

    async def inner() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("inner")
            raise

    async def wait() -> None:
        if waits_for == "time":
            await asyncio.sleep(60)
        elif waits_for == "another task":
            await asyncio.ensure_future(inner())
        else:
            for _ in range(100):
                await asyncio.sleep(0)

    async def work() -> None:
        try:
            await wait()
        except asyncio.CancelledError:
            seen.append("work")
            await asyncio.sleep(0)  # it may take its time
            seen.append("tidied up")
            raise

    started = Started(work())
    for _ in range(rounds):
        await asyncio.sleep(0)
    started.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await started.task
    assert [each for each in seen if each != "inner"] == ["work", "tidied up"]
    assert started.ended() == 1
    assert started.task.cancelled()


async def test_one_that_is_cancelled_after_its_only_step_has_ended_once():
    async def work() -> None:
        pass

    started = Started(work())
    started.task.cancel()
    await asyncio.wait([started.task])
    assert started.ended() == 1


async def test_one_that_cancels_itself_in_its_first_step_is_cancelled_where_it_waits_next():
    reached = []

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        reached.append("before")
        await asyncio.sleep(60)
        reached.append("after")

    started = Started(work())
    with pytest.raises(asyncio.CancelledError):
        await started.task
    assert reached == ["before"]


async def test_what_starts_as_another_ends_is_not_blamed_for_how_that_ended():
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("the first")

    async def follow() -> None:
        try:
            dict[str, str]()["the second"]
        except KeyError as error:
            contexts.append(error.__context__)

    contexts: list[BaseException | None] = []
    first = Started(fail(), lambda: Started(follow()))
    with pytest.raises(ValueError, match="the first"):
        await first.task
    assert contexts == [None]


async def test_attempts_that_follow_each_other_in_a_slot_share_no_context_and_no_task():
    app, store = Mulligan("memory://"), MemoryStore()
    seen, tasks = [], []

    @app.task
    async def leave(number: int) -> None:
        await asyncio.sleep(0)
        seen.append(LEFT_BEHIND.get())
        tasks.append(asyncio.current_task())
        LEFT_BEHIND.set(f"something of {current_job().id}")

    jobs = await enqueued(app, store, leave, 40)
    async with engine(app, store, Settings(lease=5, beat=0.1, concurrency=2)):
        assert await ended(store, *jobs) == ["done"] * 40
    assert seen == ["nothing"] * 40
    assert len({id(task) for task in tasks}) == 40


async def test_attempts_that_seldom_wait_leave_the_loop_to_others_in_between(monkeypatch):
    monkeypatch.setattr("mulligan.engine.claim_runner.TURN", 0.0)
    app, store = Mulligan("memory://"), MemoryStore()
    rounds = 0

    @app.task
    async def seldom(number: int) -> int:
        if number < 40:
            await asyncio.sleep(0.001)
        return rounds

    async def count() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    counting = asyncio.ensure_future(count())
    jobs = await enqueued(app, store, seldom, 80)
    async with engine(app, store, Settings(lease=5, beat=0.1, concurrency=4)):
        assert await ended(store, *jobs) == ["done"] * 80
    counting.cancel()
    found = [job.value() for job in [await store.get(each) for each in jobs[40:]] if job]
    assert len(set(found)) > 4  # a round for each turn of the four slots, or more
