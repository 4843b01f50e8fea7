"""The ticker on every store: each tick is placed once, whoever places it and when."""

import pytest

from mulligan.core.job import NewJob
from mulligan.core.page import Selection
from mulligan.core.periodic import Periodic
from mulligan.core.schedule import Cron, Every
from mulligan.engine.ticker import LONGEST_SLEEP, SHORTEST_SLEEP, Ticker, tick_id
from mulligan.stores.contract import Store
from tests.contract.making import done, job, start
from tests.store_kit import START

# A moment from which a minute begins.
MINUTE = START - START % 60


def make(name: str, delay: float) -> NewJob:
    return job(name, task="tidy", delay=delay)


TIDY = Periodic("tidy", Every(60), make)


async def placed(store: Store) -> dict[str, float]:
    """Every tick in the store, with the moment it is due."""
    jobs = (await store.page(Selection(task="tidy"), 100)).jobs
    return {each.id: each.due for each in jobs}


@pytest.fixture
def ticker(store):
    return Ticker(store, [TIDY])


async def test_the_next_tick_is_placed_as_a_delayed_job(ticker, store, clock):
    clock.now = MINUTE + 20
    assert await ticker.enqueue_due() == pytest.approx(40)
    assert await placed(store) == {tick_id("tidy", MINUTE + 60): MINUTE + 60}


async def test_a_tick_is_placed_once_whoever_places_it(ticker, store, another):
    await ticker.enqueue_due()
    await Ticker(another, [TIDY]).enqueue_due()
    await ticker.enqueue_due()
    assert len(await placed(store)) == 1


async def test_at_the_very_moment_of_a_tick_the_next_is_placed(ticker, store, clock):
    clock.now = MINUTE + 59.999
    await ticker.enqueue_due()
    clock.now = MINUTE + 60
    assert await ticker.enqueue_due() == pytest.approx(60)
    await ticker.enqueue_due()
    assert sorted((await placed(store)).values()) == [MINUTE + 60, MINUTE + 120]


async def test_a_tick_that_ran_and_is_gone_is_not_placed_again(ticker, store, clock):
    clock.now = MINUTE + 50
    await ticker.enqueue_due()
    clock.now = MINUTE + 61
    claim = await start(store)
    await store.commit([done(claim)])
    clock.now = MINUTE + 70
    await store.prune(0, 100)
    await ticker.enqueue_due()
    assert await placed(store) == {tick_id("tidy", MINUTE + 120): MINUTE + 120}


async def test_of_missed_ticks_the_latest_is_made_up_for_at_once(ticker, store, clock):
    clock.now = MINUTE + 1
    await ticker.enqueue_due()
    clock.now = MINUTE + 605
    await ticker.enqueue_due()
    assert await placed(store) == {
        tick_id("tidy", MINUTE + 60): MINUTE + 60,  # lay ready all the time
        tick_id("tidy", MINUTE + 600): MINUTE + 605,
        tick_id("tidy", MINUTE + 660): MINUTE + 660,
    }


async def test_ticks_go_on_after_the_clock_was_a_day_ahead_and_was_set_back(ticker, store, clock):
    clock.now = MINUTE + 1
    await ticker.enqueue_due()
    clock.now = MINUTE + 86_401
    await ticker.enqueue_due()
    clock.now = MINUTE + 2
    ahead = set(await placed(store))
    for minute in range(1, 4):
        await ticker.enqueue_due()
        clock.now = MINUTE + 60 * minute
    await ticker.enqueue_due()
    assert set(await placed(store)) - ahead == {
        tick_id("tidy", MINUTE + 60 * minute) for minute in (2, 3, 4)
    }
    clock.now = MINUTE + 86_390
    await ticker.enqueue_due()
    found = await placed(store)
    assert ahead <= set(found)  # and those of that day are there once
    assert tick_id("tidy", MINUTE + 86_400) in ahead


async def test_the_first_process_ever_makes_up_for_nothing(ticker, store, clock):
    clock.now = MINUTE + 3600.5
    await ticker.enqueue_due()
    assert list((await placed(store)).values()) == [MINUTE + 3660]


async def test_another_schedule_of_the_same_task_begins_anew(store, clock):
    daily = Periodic("tidy", Cron("0 3 * * *"), make)
    await Ticker(store, [daily]).enqueue_due()
    await Ticker(store, [TIDY]).enqueue_due()
    assert len(await placed(store)) == 2


async def test_a_period_that_is_no_whole_number_drifts_nowhere_and_doubles_nothing(store, clock):
    ticker = Ticker(store, [Periodic("tidy", Every(1.1), make)])
    for _ in range(40):
        pause = await ticker.enqueue_due()
        assert SHORTEST_SLEEP <= pause < 1.2
        clock.now = round(clock.now + pause, 6)
    dues = sorted((await placed(store)).values())
    assert len(dues) == 40
    assert dues[-1] - dues[0] == pytest.approx(39 * 1.1, abs=0.01)


async def test_the_ticker_sleeps_until_the_soonest_of_its_ticks_and_never_too_long(store, clock):
    clock.now = MINUTE
    weekly = Periodic("tidy", Every(7 * 86_400), make)
    assert await Ticker(store, [weekly]).enqueue_due() == LONGEST_SLEEP
    both = Ticker(store, [weekly, Periodic("tidy", Every(7), make)])
    assert await both.enqueue_due() <= 7
