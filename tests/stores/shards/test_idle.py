"""An idle worker with 64 shards: what it asks of them, on a virtual clock, counted."""

import asyncio
import random
from collections import Counter

from mulligan.core.settings import Settings
from mulligan.core.shards import tagged
from mulligan.core.worker import Worker
from mulligan.engine.worker import Engine
from mulligan.sim.loop import OrderedLoop
from mulligan.stores.shards import ShardedStore
from tests.contract.builders import ANN, claim, job, names
from tests.stores.shards.kit import Switched, spread

MINUTES = 10
SETTINGS = Settings(beat=10.0, lease=60.0)


async def idle(store: ShardedStore, shards: list[Switched], loop: OrderedLoop) -> Counter[str]:
    """What all shards are asked while a worker has nothing to do."""
    await store.open()
    worker = Worker("ann-1", "US", ("default",), SETTINGS.lease)
    engine = Engine(store, {}, worker, SETTINGS, chance=random.Random(1), monotonic=loop.time)
    running = asyncio.ensure_future(engine.run())
    await asyncio.sleep(120)
    for shard in shards:
        shard.asked.clear()
    await asyncio.sleep(60 * MINUTES)
    asked = sum((shard.asked for shard in shards), Counter[str]())
    engine.stop()
    await running
    await store.close()
    return asked


def asked_by_an_idle_worker(count: int) -> Counter[str]:
    """What an idle worker asks of so many shards in all, on a virtual clock."""
    loop = OrderedLoop()
    try:
        asyncio.set_event_loop(loop)
        shards = [Switched(loop.time) for _ in range(count)]
        return loop.run_until_complete(idle(spread(loop.time, *shards), shards, loop))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_64_shards_cost_an_idle_worker_eight_at_a_time_for_chores_and_one_look_a_minute():
    many, few = asked_by_an_idle_worker(64), asked_by_an_idle_worker(2)
    for chore in ("reclaim", "promote", "prune"):
        assert many[chore] <= 4 * few[chore] + 8
    assert many["claim"] <= 64 * (MINUTES + 1)
    assert many["wait"] <= 64 * (MINUTES + 1)
    assert many["beat"] <= 64 * (few["beat"] // 2 + 1)
    assert set(many) <= {*few, "stats"}


async def test_chores_come_to_every_shard_in_turn_and_pass_over_one_that_is_away(clock):
    shards = [Switched(clock) for _ in range(20)]
    store = spread(clock, *shards)
    await store.open()
    shards[3].down = True
    for _ in range(3):
        await store.promote(10)
    assert sorted(shard.asked["promote"] > 0 for shard in shards) == [True] * 20
    assert sum(shard.asked["promote"] for shard in shards) <= 24


async def test_a_worker_of_64_shards_is_woken_by_one_and_asks_that_one(clock):
    shards = [Switched(clock) for _ in range(64)]
    store = spread(clock, *shards, url="redis://idle-64")
    await store.open()
    assert (await claim(store, demand=5)).claims == []
    waiting = asyncio.ensure_future(store.wait(ANN, 60.0))
    for _ in range(3):
        await asyncio.sleep(0)
    for shard in shards:
        shard.asked.clear()
    await store.enqueue([job(tagged("j", 41))])
    await asyncio.wait_for(waiting, 5)
    assert names(await claim(store, demand=5)) == ["41_j"]
    assert [n for n, shard in enumerate(shards) if shard.asked["claim"]] == [41]
    await store.close()


async def test_what_a_full_worker_has_claimed_does_not_wait_for_shards_that_are_told(clock):
    shards = [Switched(clock) for _ in range(64)]
    store = spread(clock, *shards, url="redis://full-64")
    await store.open()
    assert (await claim(store)).claims == []
    waiting = asyncio.ensure_future(store.wait(ANN, 60.0))
    for _ in range(3):
        await asyncio.sleep(0)
    await store.enqueue([job(tagged("j", 41))])
    await asyncio.wait_for(waiting, 5)
    for shard in shards:
        shard.asked.clear()
    shards[7].down = True
    assert names(await claim(store)) == ["41_j"]
    assert [n for n, shard in enumerate(shards) if shard.asked["claim"]] == [41]
    assert (await claim(store)).claims == []
    assert all(shard.asked["claim"] for shard in shards if shard is not shards[7])
    await store.close()
