"""One sleep over all shards: whoever has work wakes the worker, and an idle worker asks nobody."""

import asyncio

from mulligan.core.shards import tagged
from tests.contract.builders import ANN, BOB, claim, done, job, jobs, names


async def asleep(store, worker=ANN):
    """Claim nothing, and sleep."""
    assert (await claim(store, worker=worker)).claims == []
    waiting = asyncio.ensure_future(store.wait(worker, 60.0))
    for _ in range(3):  # it starts a task for each shard, and those wait
        await asyncio.sleep(0)
    return waiting


async def test_each_shard_wakes_the_worker(store):
    for number in range(4):
        waiting = await asleep(store)
        await store.enqueue([job(tagged("j", number))])
        await asyncio.wait_for(waiting, 5)
        held = (await claim(store)).claims
        assert [each.id for each in held] == [tagged("j", number)]
        await store.commit([done(held[0])])


async def test_an_idle_worker_asks_no_shard(store, shards):
    first = await asleep(store)
    first.cancel()
    for shard in shards:
        shard.asked.clear()
    for _ in range(5):
        assert (await claim(store)).claims == []
        await store.wait(ANN, 0.0)
    assert [shard.asked["claim"] + shard.asked["wait"] for shard in shards] == [0, 0, 0, 0]


async def test_a_woken_worker_asks_only_the_shard_that_woke_it(store, shards):
    waiting = await asleep(store)
    for shard in shards:
        shard.asked.clear()
    await store.enqueue(jobs("2_a", "2_b"))
    await asyncio.wait_for(waiting, 5)
    assert len((await claim(store, demand=5)).claims) == 2
    assert [shard.asked["claim"] for shard in shards] == [0, 0, 1, 0]


async def test_a_job_that_falls_due_is_claimed_though_nobody_is_woken_for_it(store, clock):
    await store.enqueue([job("1_later", delay=10.0)])
    claimed = await claim(store)
    assert claimed.again_in == 10.0
    waiting = asyncio.ensure_future(store.wait(ANN, 60.0))
    await asyncio.sleep(0)
    clock.advance(4)
    assert (await claim(store)).again_in == 6.0
    clock.advance(6)
    assert names(await claim(store)) == ["1_later"]
    waiting.cancel()


async def test_a_worker_that_is_full_leaves_the_next_job_to_another(store):
    ann, bob = await asleep(store), await asleep(store, BOB)
    await store.enqueue(jobs("0_a"))
    await asyncio.wait([ann, bob], return_when=asyncio.FIRST_COMPLETED, timeout=5)
    woken, other = (ANN, bob) if ann.done() else (BOB, ann)
    assert names(await claim(store, worker=woken)) == ["0_a"]
    await store.enqueue(jobs("3_b"))
    await asyncio.wait_for(other, 5)


async def test_a_worker_that_leaves_is_waited_for_nowhere(store):
    waiting = await asleep(store)
    await store.leave(ANN)
    waiting.cancel()
    bob = await asleep(store, BOB)
    await store.enqueue(jobs("1_a"))
    await asyncio.wait_for(bob, 5)
