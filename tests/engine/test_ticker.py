"""The ticker: it places the ticks of schedules, once, whoever else does."""

import asyncio
import logging

import pytest
from msgspec.structs import replace

from mulligan.app.schedules import put_schedule
from mulligan.core.errors import InvalidError
from mulligan.core.known_tasks import DECLARES
from mulligan.core.page import Selection
from mulligan.core.reschedule import Reschedule
from mulligan.core.schedule import Schedule, read_schedules, template, tick_id
from mulligan.core.ticks import put
from mulligan.engine.breakers import Breakers
from mulligan.engine.ticker import IDLE_SLEEP, LONGEST_SLEEP, SHORTEST_SLEEP, Ticker
from mulligan.stores.contract import Store
from tests.contract.builders import ANN, claim, done, job, start
from tests.store_kit import START

# A moment from which a minute begins.
MINUTE = START - START % 60
TIDY = Schedule("tidy", *template(job("x", task="tidy")), every=60.0, declared=True)


def ticker_of(store: Store, *declared: Schedule, worker: str = "w") -> Ticker:
    return Ticker(store, declared, worker)


async def placed(store: Store) -> dict[str, float]:
    """Every tick in the store, with the moment it is due."""
    jobs = (await store.page(Selection(task="tidy"), 100)).jobs
    return {each.id: each.due for each in jobs}


async def stored(store: Store, name: str = "tidy") -> Schedule:
    return read_schedules(await store.schedules())[name].schedule


async def keep(store: Store, schedule: Schedule, now: float) -> None:
    """Store a schedule, as an operator does."""
    assert await store.reschedule(put(None, replace(schedule, declared=False), now))


@pytest.fixture
def ticker(store):
    return ticker_of(store, TIDY)


async def test_the_next_tick_is_placed_as_a_delayed_job(ticker, store, clock):
    clock.now = MINUTE + 20
    assert await ticker.look() == LONGEST_SLEEP
    assert await placed(store) == {tick_id("tidy", MINUTE + 60): MINUTE + 60}
    clock.now = MINUTE + 45
    assert await ticker.look() == pytest.approx(15)


async def test_a_tick_is_placed_once_whoever_places_it(ticker, store, another, clock):
    clock.now = MINUTE + 1
    await asyncio.gather(*[each.look() for each in (ticker, ticker_of(another, TIDY, worker="v"))])
    for moment in (61, 62, 121, 185):
        clock.now = MINUTE + moment
        both = ticker, ticker_of(another, TIDY, worker="v")
        await asyncio.gather(*[each.look() for each in both])
        for each in both:
            while await each.look() == SHORTEST_SLEEP:
                pass
    assert sorted((await placed(store)).values()) == [MINUTE + n for n in (60, 120, 180, 240)]


async def test_at_the_very_moment_of_a_tick_the_next_is_placed(ticker, store, clock):
    clock.now = MINUTE + 59.999
    await ticker.look()
    clock.now = MINUTE + 60
    await ticker.look()
    await ticker.look()
    assert sorted((await placed(store)).values()) == [MINUTE + 60, MINUTE + 120]


async def test_a_tick_that_ran_and_is_gone_is_not_placed_again(ticker, store, clock):
    clock.now = MINUTE + 50
    await ticker.look()
    clock.now = MINUTE + 61
    await store.commit([done(await start(store))])
    clock.now = MINUTE + 70
    await store.prune(0, 100)
    await ticker.look()
    assert await placed(store) == {tick_id("tidy", MINUTE + 120): MINUTE + 120}


async def test_of_missed_ticks_the_latest_is_made_up_for_at_once(ticker, store, clock):
    clock.now = MINUTE + 1
    await ticker.look()
    clock.now = MINUTE + 605
    await ticker.look()
    assert await placed(store) == {
        tick_id("tidy", MINUTE + 600): MINUTE + 605,
        tick_id("tidy", MINUTE + 660): MINUTE + 660,
    }
    assert (await stored(store)).late == 5.0


async def test_missed_ticks_are_all_made_up_for_in_batches_where_it_is_so_said(store, clock):
    clock.now = MINUTE
    await keep(store, replace(TIDY, every=1.0, catch_up="all"), MINUTE)
    clock.now = MINUTE + 350
    ticker = ticker_of(store)
    for _ in range(4):
        assert await ticker.look() == SHORTEST_SLEEP
    await ticker.look()
    assert (await stored(store)).ticks == 350
    page = await store.page(Selection(task="tidy"), 1000)
    assert len({each.id for each in page.jobs}) == len(page.jobs) == 351


async def test_ticks_go_on_after_the_clock_was_a_day_ahead_and_was_set_back(ticker, store, clock):
    clock.now = MINUTE + 1
    await ticker.look()
    clock.now = MINUTE + 86_401
    await ticker.look()
    ran = set(await placed(store))
    clock.now = MINUTE + 2
    for minute in range(1, 4):
        await ticker.look()
        clock.now = MINUTE + 60 * minute
    await ticker.look()
    found = set(await placed(store))
    assert {tick_id("tidy", MINUTE + 60 * minute) for minute in (2, 3, 4)} <= found
    assert tick_id("tidy", MINUTE + 86_460) not in found  # it is withdrawn until then
    assert ran & found == {tick_id("tidy", MINUTE + 86_400)}


class StopsBetween:
    """A store whose process is stopped after its first answer of this name, until that is over."""

    def __init__(self, store, name, meanwhile):
        self._store, self._name, self._meanwhile = store, name, [meanwhile]

    def __getattr__(self, name):
        if name != self._name or not self._meanwhile:
            return getattr(self._store, name)

        async def answer():
            found = await getattr(self._store, name)()
            await self._meanwhile.pop()()
            return found

        return answer


@pytest.mark.parametrize("store_url", ["memory"], indirect=True)
@pytest.mark.parametrize("name", ["facts", "schedules"])
@pytest.mark.parametrize("what", ["tick", "edit"])
async def test_a_process_that_stops_between_two_reads_does_not_think_that_a_clock_was_set_back(
    store, clock, name, what
):
    clock.now = MINUTE
    await keep(store, TIDY, MINUTE)

    async def time_passes():
        for minute in range(1, 5):
            clock.now = MINUTE + 60 * minute
            await ticker_of(store, worker="other").look()
            [ran] = (await claim(store)).claims
            await store.commit([done(ran)])
        await store.purge(await placed(store))

    stops = StopsBetween(store, name, time_passes)
    if what == "tick":
        await ticker_of(stops).look()
    else:
        await put_schedule(stops, replace(TIDY, declared=False, catch_up="all"))
    assert await placed(store) == {tick_id("tidy", MINUTE + 300): MINUTE + 300}


async def test_a_period_that_is_no_whole_number_drifts_nowhere_and_doubles_nothing(store, clock):
    ticker = ticker_of(store, replace(TIDY, every=1.1))
    for _ in range(80):
        pause = await ticker.look()
        assert SHORTEST_SLEEP <= pause < 1.2
        clock.now = round(clock.now + pause, 6)
    dues = sorted((await placed(store)).values())
    assert len(dues) >= 39
    assert dues[-1] - dues[0] == pytest.approx((len(dues) - 1) * 1.1, abs=0.02)


async def test_it_sleeps_until_the_soonest_tick_and_never_too_long(store, clock):
    clock.now = MINUTE
    assert await ticker_of(store).look() == IDLE_SLEEP
    await keep(store, replace(TIDY, every=7 * 86_400.0), MINUTE)
    assert await ticker_of(store).look() == LONGEST_SLEEP
    await keep(store, replace(TIDY, name="soon", every=7.0), MINUTE)
    assert await ticker_of(store).look() <= 7


async def test_a_stored_schedule_is_ticked_by_whoever_is_there(store, clock):
    clock.now = MINUTE
    await keep(store, TIDY, MINUTE)
    clock.now = MINUTE + 61
    await ticker_of(store).look()
    assert sorted((await placed(store)).values()) == [MINUTE + 60, MINUTE + 120]


async def test_another_timing_of_a_declared_schedule_replaces_the_tick(ticker, store, clock):
    clock.now = MINUTE
    await ticker.look()
    await ticker_of(store, replace(TIDY, every=None, cron="30 * * * *", timezone="UTC")).look()
    [due] = (await placed(store)).values()
    assert due % 3600 == 1800


async def test_a_worker_does_not_bring_back_what_another_release_declares(ticker, store, clock):
    clock.now = MINUTE
    await ticker.look()
    newer = ticker_of(store, replace(TIDY, every=90.0), worker="newer")
    await newer.look()
    await ticker.look()
    assert (await stored(store)).every == 90.0


async def test_a_declared_schedule_does_not_tick_when_no_live_worker_declares_it(
    ticker, store, clock
):
    other = ticker_of(store, worker="other")
    clock.now = MINUTE + 1
    await ticker.look()
    await other.look()
    assert len(await placed(store)) == 1
    await ticker.leave()
    await other.look()
    assert await placed(store) == {}
    assert (await stored(store)).state == "undeclared"
    clock.now = MINUTE + 200
    await ticker_of(store, TIDY, worker="again").look()
    assert sorted((await placed(store)).values()) == [MINUTE + 200, MINUTE + 240]


async def test_a_worker_that_was_killed_declares_for_less_than_a_minute_more(ticker, store, clock):
    clock.now = MINUTE + 1
    await ticker.look()
    other = ticker_of(store, worker="other")
    clock.advance(40)
    await other.look()
    assert (await stored(store)).state == "active"
    clock.advance(10)
    await other.look()
    assert (await stored(store)).state == "undeclared"


async def test_a_live_worker_renews_what_it_declares(ticker, store, clock):
    clock.now = MINUTE
    for _ in range(5):
        await ticker.look()
        clock.advance(20)
    assert list(await store.notes(DECLARES)) == [f"{DECLARES}w"]


async def test_a_worker_that_was_away_too_long_declares_anew(ticker, store, clock):
    clock.now = MINUTE
    await ticker.look()
    clock.advance(100)
    await ticker_of(store, worker="other").look()
    assert (await stored(store)).state == "undeclared"
    assert await ticker.look() == SHORTEST_SLEEP
    await ticker.look()
    assert (await stored(store)).state == "active"


async def test_a_stored_schedule_with_the_name_of_a_task_is_left_as_it_is(
    ticker, store, clock, caplog
):
    clock.now = MINUTE
    await keep(store, replace(TIDY, every=300.0), MINUTE)
    with caplog.at_level(logging.WARNING):
        await ticker.look()
    assert (await stored(store)).every == 300.0
    assert "a stored schedule has its name" in caplog.text


async def test_a_record_that_cannot_be_read_holds_up_no_other(ticker, store, clock):
    await store.reschedule(Reschedule("a", None, b"{]"))
    await ticker.look()
    assert len(await placed(store)) == 1


async def test_an_edit_wakes_a_ticker_through_the_epoch(store):
    await store.beat(ANN, [])
    breakers, ticker = Breakers("default"), ticker_of(store)
    breakers.update(await store.facts())
    breakers.on_epoch = ticker.wake
    running = asyncio.ensure_future(ticker.run())
    try:
        looked = asyncio.Event()
        read = ticker.look

        async def look() -> float:
            looked.set()
            return await read()

        ticker.look = look  # type: ignore[method-assign]
        ticker.wake()
        await asyncio.wait_for(looked.wait(), 10)
        looked.clear()
        await store.reschedule(Reschedule("a", None, b"{}", edit=True))
        breakers.update(await store.facts())
        await asyncio.wait_for(looked.wait(), 10)
    finally:
        running.cancel()


async def test_a_schedule_that_the_store_refuses_is_told_once_and_holds_up_no_other(
    store, clock, caplog, monkeypatch
):
    for name in ("bad", "tidy"):
        await keep(store, replace(TIDY, name=name), MINUTE)
    carry_out = store.reschedule

    async def refuse_bad(change: Reschedule) -> bool:
        if change.name == "bad":
            raise InvalidError("its home is elsewhere")
        return bool(await carry_out(change))

    monkeypatch.setattr(store, "reschedule", refuse_bad)
    clock.now = MINUTE + 61
    ticker = ticker_of(store)
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            await ticker.look()
    assert tick_id("tidy", MINUTE + 120) in await placed(store)
    assert [each.message for each in caplog.records] == [
        "schedule bad does not tick: its home is elsewhere"
    ]
