"""Signs of life, and what becomes of jobs without one."""

from contextlib import asynccontextmanager

import pytest

from mulligan.core.decide import decide
from mulligan.core.outcome import Lost
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from tests.contract.builders import ANN, BOB, REAPER, claim, done, jobs, names, start
from tests.stores.mongo.steps import TEN_MINUTES, plain, pop


async def test_an_abandoned_pop_is_reclaimed_ten_minutes_after_its_last_sign(store, tasks, clock):
    await store.enqueue(jobs("a"))
    tasks.insert_one(plain(clock, "b"))
    clock.advance(1)
    assert {pop(tasks, clock.now)["_id"], pop(tasks, clock.now)["_id"]} == {"a", "b"}
    clock.advance(TEN_MINUTES - 1)
    assert await store.reclaim(10, REAPER) == []
    clock.advance(1)
    reclaimed = await store.reclaim(10, REAPER)
    assert sorted(each.id for each in reclaimed) == ["a", "b"]
    assert await store.reclaim(10, BOB) == []
    outcomes = [decide(each, Lost(), await store.facts(), 0.5) for each in reclaimed]
    assert await store.commit(outcomes) == ["written", "written"]
    assert sorted(names(await claim(store, demand=5))) == ["a", "b"]
    assert {each["attempts"] for each in tasks.find()} == {1}


async def test_running_jobs_show_a_sign_of_life_every_minute(store, tasks, clock):
    await store.enqueue(jobs("a"))
    first = await start(store)
    signs = []
    for _ in range(40):
        clock.advance(5)
        assert (await store.beat(ANN, [first.lease])).lost == []
        signs.append(clock.now - tasks.find_one()["updated_at"].timestamp())
    assert max(signs) < 60
    assert await store.commit([done(first)]) == ["written"]


async def test_workers_that_were_killed_are_forgotten_after_a_day(store, clock):
    await store.beat(ANN, [])
    clock.advance(86_000)
    await store.beat(BOB, [])
    await store.prune(0, 10)
    assert [view.worker for view in (await store.stats()).workers] == [ANN, BOB]
    clock.advance(1000)
    await store.prune(0, 10)
    assert [view.worker for view in (await store.stats()).workers] == [BOB]


@pytest.mark.parametrize("wrong", ["reaper", "holder"])
async def test_a_lease_is_kept_until_its_end_by_clocks_that_may_be_wrong(store_url, wrong):
    async with both(store_url) as (holder, reaper):
        # As if answers of the server had taken two minutes.
        off = {"reaper": (reaper, 60), "holder": (holder, -60)}[wrong]
        await doubt(*off)
        ann = Worker("ann", lease=50.0)
        await holder.enqueue(jobs("a"))
        assert names(await claim(holder, worker=ann)) == ["a"]
        await holder.beat(ann, [])
        assert await reaper.reclaim(10, REAPER) == []


@asynccontextmanager
async def both(url):
    """Two stores on one database, as two processes have them."""
    stores = [make_store(url), make_store(url)]
    for each in stores:
        await each.open()
    yield stores
    for each in stores:
        await each.close()


async def doubt(store, seconds):
    """Set the clock of the store's process wrong by so much, which it takes for possible."""
    await store._connection.now()
    store._connection._offset += seconds
    store._connection.doubt = abs(seconds) * 1_000_000
