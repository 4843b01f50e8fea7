"""Time saved by priority: how much later a retry would have started in the fresh line."""

import asyncio

import pytest
from msgspec.structs import replace

from mulligan import Exponential, Mulligan, Retry, current_job
from mulligan.core.lane import Lane, Priority
from mulligan.engine.reporter import MOST_WATCHED, TimeSaved
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import FRESH, again, begin, claim, done, job, jobs, start
from tests.core.test_decide import claimed
from tests.store_kit import VirtualClock

PLAIN = Retry(3, Exponential(2, 2, 60, "none"))
LINE = Lane("default", "default", Priority.NORMAL)


def test_it_is_the_start_of_the_last_in_the_fresh_line_minus_that_of_the_retry():
    """Jobs of 30 s: A fails at 30 and is due at 32, when C, D and E still wait.

    B runs from 30 to 60, the retry of A from 60, then C, D, E at 90, 120, 150: 90 s saved.
    """
    app = Mulligan("memory://")
    app.queue("default", policy="retry-first")

    @app.task(retry=PLAIN)
    async def ask(name: str) -> None:
        await asyncio.sleep(30)
        if name == "A" and current_job().attempt == 1:
            raise TimeoutError(name)

    with app.testing(concurrency=1) as t:
        for name in "ABCDE":
            ask.enqueue(name)
        t.drain()
        t.advance(5)
        ever = t.run(t.store.counts()).ever
        assert ever["default", "default", "saved"] == 1
        assert ever["default", "default", "saved-seconds"] == pytest.approx(90, abs=0.01)


def test_a_retry_with_nobody_in_the_fresh_line_saved_nothing_that_could_be_measured():
    app = Mulligan("memory://")

    @app.task(retry=PLAIN)
    async def ask() -> None:
        if current_job().attempt == 1:
            raise TimeoutError

    with app.testing(concurrency=1) as t:
        ask.enqueue()
        t.drain()
        t.advance(5)
        assert not [name for *_, name in t.run(t.store.counts()).ever if name.startswith("saved")]


@pytest.fixture
def store(clock: VirtualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


async def retried(store: MemoryStore, *waiting: str):
    """A retry that has just started, ahead of these."""
    [first] = await begin(store, job("retry"))
    await store.enqueue(jobs(*waiting))
    await store.commit([again(first)])
    return await start(store, Lane("default", "*", Priority.RETRY))


async def test_it_is_known_when_the_last_of_the_line_has_started(store, clock):
    time_saved = TimeSaved(store)
    time_saved.watch(await retried(store, "a", "b"))
    assert await time_saved.measured() == []
    assert time_saved.waiting
    clock.advance(10)
    await claim(store, FRESH, demand=2)
    [count, seconds] = await time_saved.measured()
    assert (count.name, count.value, seconds.name, seconds.value) == (
        "saved",
        1,
        "saved-seconds",
        10,
    )
    assert not time_saved.waiting


async def test_a_last_one_that_was_cancelled_or_has_been_retried_measures_nothing(store, clock):
    time_saved = TimeSaved(store)
    time_saved.watch(await retried(store, "a"))
    await time_saved.measured()
    await store.cancel(["a"], "not needed")
    assert await time_saved.measured() == []
    assert not time_saved.waiting


async def test_a_last_one_whose_start_was_not_its_first_measures_nothing(store, clock):
    time_saved = TimeSaved(store)
    time_saved.watch(await retried(store, "a"))
    await time_saved.measured()
    await store.commit([again(await start(store, FRESH))])
    await start(store, Lane("default", "*", Priority.RETRY))
    assert await time_saved.measured() == []
    assert not time_saved.waiting


async def test_a_last_one_that_is_gone_measures_nothing(store, clock):
    time_saved = TimeSaved(store)
    time_saved.watch(await retried(store, "a"))
    await time_saved.measured()
    await store.commit([done(await start(store, FRESH))])
    await store.purge(["a"])
    assert await time_saved.measured() == []
    assert not time_saved.waiting


async def test_one_retry_a_second_is_watched_and_a_few_at_a_time(store, clock):
    time_saved = TimeSaved(store)
    retry = await retried(store, "a")
    time_saved.watch(retry)
    time_saved.watch(replace(retry, id="second"))
    await time_saved.measured()
    time_saved.watch(replace(retry, id="third"))
    await time_saved.measured()
    assert len(time_saved._watched) == 1
    for _ in range(2 * MOST_WATCHED):
        time_saved._sampled_at = -10.0
        time_saved.watch(retry)
        await time_saved.measured()
    assert len(time_saved._watched) == MOST_WATCHED


async def test_a_line_that_is_empty_before_anybody_reports_is_measured_too(store, clock):
    time_saved = TimeSaved(store)
    time_saved.watch(await retried(store, "a", "b"))
    await asyncio.sleep(0)
    clock.advance(0.3)
    for each in (await claim(store, FRESH, demand=2)).claims:
        await store.commit([done(each)])
    [count, seconds] = await time_saved.measured()
    assert count.value == 1
    assert seconds.value == pytest.approx(0.3)


async def test_a_retry_in_the_fresh_line_itself_is_not_watched(store):
    time_saved = TimeSaved(store)
    time_saved.watch(replace(claimed(), retry_count=1))
    await time_saved.measured()
    assert not time_saved.waiting
