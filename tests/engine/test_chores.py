"""A worker's chores: the reaper, the ticks of periodic tasks, and the watch for unserved work."""

import asyncio
import logging
import random
from typing import Any

import pytest

from mulligan import Mulligan
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import NewJob
from mulligan.core.page import Selection
from mulligan.core.periodic import Periodic
from mulligan.core.schedule import Cron, Every
from mulligan.core.worker import Worker
from mulligan.engine import Engine, chores
from mulligan.engine.breakers import FactsCell
from mulligan.engine.cancel import cancel_tasks
from mulligan.engine.chores import (
    BATCH,
    LONGEST_SLEEP,
    SHORTEST_SLEEP,
    Reaper,
    Ticker,
    UnservedWatch,
    tick_id,
)
from mulligan.engine.committer import Committer
from mulligan.engine.events import Events
from mulligan.engine.reporter import Reporter
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore
from tests.contract.making import done, job, start
from tests.engine.running import QUICK, until, worker_of
from tests.store_kit import START, VirtualClock

JOBS = 2 * BATCH + 50
DEAD = Worker("dead", concurrency=JOBS)
# A moment from which a minute begins.
MINUTE = START - START % 60
SENTENCE = (
    "2 jobs of queue mail for region EU wait, and no live worker may take them;"
    " start one with: mulligan worker myapp:app --region EU --queue mail"
)
EU = Worker("eve-1", "EU", ("mail",))


class HeldUp(MemoryStore):
    """A store whose commits are held up, by somebody's lock perhaps, until they are let go."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock=clock)
        self.asked = asyncio.Event()
        self.free = asyncio.Event()

    async def commit(self, *args: Any) -> Any:
        """Wait first."""
        self.asked.set()
        await self.free.wait()
        return await super().commit(*args)


async def test_it_reclaims_no_more_while_what_it_reclaimed_is_not_written():
    clock = VirtualClock()
    store = HeldUp(clock)
    await store.enqueue([NewJob(f"j{number}", "default", "t", b"{}") for number in range(JOBS)])
    cell = FactsCell()
    facts = cell.current = (await store.beat(DEAD, [])).facts
    await store.claim(plan_claim(JOBS, "default", [("default", Carry())], facts), DEAD)
    clock.advance(2 * DEAD.lease)
    reporter = Reporter(store)
    events = Events({}, reporter, None)
    committer = Committer(store, reporter, events, asyncio.get_running_loop().time)
    reaper = Reaper(
        store,
        Worker("w"),
        lambda claim: claim,
        committer,
        events,
        facts=cell,
        every=0.001,
        chance=random.Random(1),
    )
    loops = [asyncio.ensure_future(committer.run()), asyncio.ensure_future(reaper.run())]
    try:
        await store.asked.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert reaper.reclaimed == BATCH
        store.free.set()

        async def all_written() -> bool:
            return committer.written == JOBS

        await until(all_written)
    finally:
        await cancel_tasks(loops)


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


class Idle:
    """Slots that hold nothing, or something."""

    def __init__(self, *holding: object) -> None:
        self.holding = list(holding)


def looking(store: Store) -> UnservedWatch:
    return UnservedWatch(store, Idle(), "myapp:app")  # type: ignore[arg-type]


async def unserved_mail(store: Store) -> None:
    """Two jobs for EU, and a worker elsewhere."""
    await store.beat(Worker("ann-1", "US", ("mail",)), [])
    await store.enqueue([job(name, queue="mail", region="EU") for name in ("a", "b")])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


async def test_what_nobody_may_take_is_told_once_with_the_command(store, caplog):
    await unserved_mail(store)
    look = looking(store)
    await look.look()
    await look.look()
    assert warnings(caplog) == [SENTENCE]


async def test_it_is_told_again_when_nobody_serves_it_again(store, caplog):
    await unserved_mail(store)
    look = looking(store)
    await look.look()
    await store.beat(EU, [])
    await look.look()
    await store.leave(EU)
    await look.look()
    assert warnings(caplog) == [SENTENCE, SENTENCE]


async def test_a_worker_of_an_app_tells_it_by_itself(caplog, monkeypatch):
    monkeypatch.setattr(chores, "FIRST_LOOK", 0.0)
    store, app = MemoryStore(), Mulligan("memory://")
    await unserved_mail(store)
    engine = Engine(store, app.tasks, worker_of(app), QUICK, app="myapp:app")
    running = asyncio.ensure_future(engine.run())

    async def told() -> bool:
        return SENTENCE in warnings(caplog)

    await until(told)
    engine.stop()
    await running


async def test_a_busy_worker_does_not_look(caplog, monkeypatch):
    monkeypatch.setattr(chores, "FIRST_LOOK", 0.0)
    monkeypatch.setattr(chores, "LOOK_EVERY", 0.0)
    store = MemoryStore()
    await unserved_mail(store)
    slots = Idle("a lease")
    looks = asyncio.ensure_future(UnservedWatch(store, slots, "a:b").run())  # type: ignore[arg-type]
    for _ in range(5):
        await asyncio.sleep(0)
    assert warnings(caplog) == []
    slots.holding.clear()

    async def told() -> bool:
        return bool(warnings(caplog))

    await until(told)
    looks.cancel()
