"""Of two sleepers the one that may take the job sooner is woken, and not the other."""

from mulligan.core.job import NewJob
from mulligan.core.lane import Lane
from mulligan.core.plan import ClaimPlan, Group, Source, Take
from tests.contract.builders import ANN, BOB
from tests.contract.waits import undisturbed, woken

LANE = Lane("default", "*-US", 1)


async def sleeps(store, worker, waited):
    """Have the worker wait for the lane, from which it may take only after this grace."""
    facts = await store.facts()
    group = Group("default", "retry", ((Source(LANE, waited),),))
    plan = ClaimPlan(1, (group,), (Take(0, 1),), facts.epoch)
    assert (await store.claim(plan, worker)).claims == []


async def put(store, delay=0.0):
    job = NewJob("a", "default", "t", b'{"task":"t"}', region="*-US", priority=1, delay=delay)
    await store.enqueue([job])


async def test_whoever_may_take_it_at_once_is_woken_rather_than_who_must_wait(store):
    await store.beat(ANN, [])
    await store.beat(BOB, [])
    await sleeps(store, ANN, waited=2.0)
    await sleeps(store, BOB, waited=0.0)
    await put(store, delay=0.05)
    assert await woken(store, BOB)
    assert await undisturbed(store, ANN)


async def test_that_one_who_must_wait_knows_of_it_does_not_keep_another_asleep(store):
    await store.beat(ANN, [])
    await store.beat(BOB, [])
    await sleeps(store, BOB, waited=0.0)
    await store.leave(BOB)
    await put(store, delay=5.0)
    await sleeps(store, ANN, waited=2.0)
    await store.beat(BOB, [])
    await sleeps(store, BOB, waited=0.0)
    await store.leave(ANN)
    assert await undisturbed(store, BOB)
