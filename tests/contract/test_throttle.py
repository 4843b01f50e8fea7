"""Throttle: a unique key that is taken until its time is over and its job has ended."""

import pytest

from mulligan.core.outcome import Cancelled
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import adopted_from, again, begin, claim, dead, done, job, names, start

HOUR = 3600.0


def call(name, **fields):
    """A throttled job, kept as the app keeps it."""
    return job(name, **{"unique_key": "k", "unique_for": HOUR, "keep": int(HOUR), **fields})


async def enqueue(store, *new):
    return [tuple(each) for each in await store.enqueue(new)]


@pytest.mark.parametrize("end", [done, dead])
async def test_the_key_is_taken_until_the_time_is_over_even_if_the_job_has_ended(store, clock, end):
    [claimed] = await begin(store, call("a"))
    assert (await store.get("a")).unique_until == clock.now + HOUR
    await store.commit([end(claimed)])
    assert await enqueue(store, call("b"), job("c", unique_key="k")) == [("a", False)] * 2
    clock.advance(HOUR - 1)
    assert await enqueue(store, call("d")) == [("a", False)]
    clock.advance(1)
    assert await enqueue(store, call("e"), call("f")) == [("e", True), ("e", False)]
    assert (await store.get("e")).unique_until == clock.now + HOUR


async def test_the_key_is_taken_until_the_job_has_ended_even_if_the_time_is_over(store, clock):
    [claimed] = await begin(store, call("a"))
    clock.advance(HOUR + 5)
    assert await enqueue(store, call("b")) == [("a", False)]
    await store.commit([again(claimed)])
    assert await enqueue(store, call("c")) == [("a", False)]
    await store.commit([done(await start(store))])
    assert await enqueue(store, call("d")) == [("d", True)]


@pytest.mark.parametrize("how", ["by hand", "running", "by its worker", "expired"])
async def test_cancelling_frees_it(store, clock, how):
    await store.enqueue([call("a", expires=9.0)])
    if how in ("running", "by its worker"):
        claimed = await start(store)
    if how == "by its worker":
        await store.commit([Cancelled(claimed.lease, "enough")])
    elif how == "expired":
        clock.advance(10)
        await store.promote(10)
    else:
        await store.cancel(["a"], "enough")
    assert await enqueue(store, call("b")) == [("b", True)]


async def test_pruning_does_not_free_it(store, clock):
    [claimed] = await begin(store, call("a"))
    clock.advance(10)
    await store.commit([done(claimed)])
    clock.advance(HOUR - 11)
    await store.prune(0.0, 100)
    assert await enqueue(store, call("b")) == [("a", False)]
    clock.advance(12)
    assert await store.prune(0.0, 100) == 1
    assert await store.get("a") is None
    assert await enqueue(store, call("c")) == [("c", True)]


async def test_purging_frees_it_with_the_job(store, clock):
    [claimed] = await begin(store, call("a"))
    await store.commit([done(claimed)])
    assert await store.purge(["a"]) == [True]
    assert await enqueue(store, call("b")) == [("b", True)]


async def test_a_replayed_one_has_its_key_still(store, clock):
    [claimed] = await begin(store, call("a"))
    await store.commit([dead(claimed)])
    assert await store.replay(["a"]) == [True]
    clock.advance(HOUR)
    assert await enqueue(store, call("b")) == [("a", False)]
    await store.commit([done(await start(store))])
    assert await enqueue(store, call("b")) == [("b", True)]


async def test_one_that_is_replayed_too_late_finds_its_key_taken(store, clock):
    [claimed] = await begin(store, call("a"))
    await store.commit([dead(claimed)])
    clock.advance(HOUR)
    await store.enqueue([call("b")])
    assert await store.replay(["a"]) == [False]
    await store.cancel(["b"], "enough")
    assert await store.replay(["a"]) == [True]
    assert await enqueue(store, call("c")) == [("a", False)]


async def test_a_batch_with_one_key_is_one_job(store):
    answers = await enqueue(store, *(call(f"j{n}") for n in range(5)))
    assert answers == [("j0", True)] + [("j0", False)] * 4


async def test_its_next_jobs_cannot_have_its_key_yet(store, clock):
    [claimed] = await begin(store, call("a"))
    await store.commit([done(claimed, b"1", job("b", unique_key="k"), job("c"))])
    assert [await store.get("b"), (await store.get("c")).status] == [None, "pending"]
    assert await enqueue(store, call("d")) == [("a", False)]


async def test_a_plain_key_is_free_as_soon_as_its_job_has_ended(store, clock):
    [claimed] = await begin(store, job("a", unique_key="k"))
    assert await enqueue(store, call("b")) == [("a", False)]
    await store.commit([done(claimed)])
    assert await enqueue(store, call("c")) == [("c", True)]


async def test_an_adopted_one_holds_its_key_until_the_same_time(store, clock):
    other = MemoryStore(clock=clock)
    await other.enqueue([call("a")])
    until = clock.now + HOUR
    clock.advance(100)
    assert await store.adopt(await adopted_from(other, "a")) == [True]
    assert (await store.get("a")).unique_until == until
    await store.commit([done(await start(store))])
    assert await enqueue(store, call("b")) == [("a", False)]
    clock.advance(HOUR - 100)
    assert await enqueue(store, call("c")) == [("c", True)]
    assert names(await claim(store)) == ["c"]
