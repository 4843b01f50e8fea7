"""Watching: whoever waits for a job to end is told when it has, however it ended."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from mulligan.core.outcome import Cancelled
from tests.contract.builders import (
    REAPER,
    again,
    begin,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
)


class Caller:
    """Waits for a job to end."""

    def __init__(self, store, job):
        self._loop = asyncio.get_running_loop()
        self._told = asyncio.Event()
        self._store, self._job = store, job

    async def __aenter__(self):
        self._watch = await self._store.watch(self._job, self._tell)
        return self

    async def __aexit__(self, *_):
        self._watch.close()

    def _tell(self):
        self._loop.call_soon_threadsafe(self._told.set)

    async def is_told(self):
        async with asyncio.timeout(10):
            await self._told.wait()
        return True

    @property
    def was_told(self):
        return self._told.is_set()


@pytest.mark.parametrize("end", [done, dead, lambda claim: Cancelled(claim.lease, "enough")])
async def test_a_commit_tells_who_waits_in_another_process(store, another, end):
    [claimed] = await begin(store, job("a"))
    async with Caller(another, "a") as caller:
        await store.commit([end(claimed)])
        assert await caller.is_told()


async def test_each_commit_tells_who_waits_and_no_longer_once_nobody_does(store, another):
    for name in ("a", "b", "c"):
        [claimed] = await begin(store, job(name))
        async with Caller(another, name) as caller:
            assert await store.commit([done(claimed)]) == ["written"]
            assert await caller.is_told()
        assert await store.commit([done(claimed)]) == ["already"]
    await another.close()
    for name in ("d", "e"):
        [claimed] = await begin(store, job(name))
        assert await store.commit([done(claimed)]) == ["written"]


async def test_a_commit_tells_who_waits_in_the_same_process(store):
    [claimed] = await begin(store, job("a"))
    async with Caller(store, "a") as caller:
        await store.commit([done(claimed)])
        assert await caller.is_told()


async def test_cancelling_tells_who_waits(store, another):
    await store.enqueue(jobs("a"))
    async with Caller(another, "a") as caller:
        await store.cancel(["a"], "enough")
        assert await caller.is_told()


async def test_expiry_tells_who_waits_whoever_finds_it(store, another, clock):
    await store.enqueue([job("a", expires=5.0), job("b", expires=5.0, delay=60.0)])
    async with Caller(another, "a") as first, Caller(another, "b") as second:
        clock.advance(10)
        assert names(await claim(store)) == []
        assert await store.promote(10) >= 1
        assert await first.is_told()
        assert await second.is_told()


async def test_who_waits_for_a_gathering_job_is_told_when_a_member_is_cancelled(store, another):
    await store.enqueue([job("all", queue="gathered", awaits=1)])
    await store.enqueue([job("m", gather="all")])
    async with Caller(another, "all") as caller:
        await store.cancel(["m"], "enough")
        assert await caller.is_told()


async def test_a_lost_attempt_that_was_the_last_tells_who_waits(store, another, clock):
    await begin(store, job("a"))
    async with Caller(another, "a") as caller:
        clock.advance(60)
        [lost] = await store.reclaim(10, REAPER)
        await store.commit([dead(lost, "the worker is gone")])
        assert await caller.is_told()


async def test_each_of_many_callers_is_told_of_its_own_job_alone(store, another):
    ids = [f"job-{number}" for number in range(300)]
    *most, last = await begin(store, *jobs(*ids))
    callers = {id_: Caller(another, id_) for id_ in ids}
    async with AsyncExitStack() as entered:
        await asyncio.gather(*map(entered.enter_async_context, callers.values()))
        await store.commit([done(each) for each in most])
        for each in most:
            assert await callers[each.id].is_told()
        assert not callers[last.id].was_told


async def test_two_callers_of_one_job_are_told_both_and_one_that_left_is_not(store, another):
    [claimed] = await begin(store, job("a"))
    async with Caller(another, "a") as first, Caller(another, "a") as second:
        async with Caller(another, "a") as left:
            pass
        await store.commit([done(claimed)])
        assert await first.is_told()
        assert await second.is_told()
        assert not left.was_told


async def test_what_goes_on_is_no_end(store, another):
    [first, second] = await begin(store, job("a"), job("b"))
    async with Caller(another, "a") as caller, Caller(another, "b") as other:
        await store.commit([again(first)])
        await store.commit([done(second)])
        assert await other.is_told()
        assert (await another.get("a")).status == "pending"
    del caller


async def test_a_job_that_nobody_knows_may_be_watched(store):
    async with Caller(store, "nobody") as caller:
        assert not caller.was_told


async def test_a_stale_commit_leaves_the_wait_to_the_one_that_holds_the_job(store, another, clock):
    [old] = await begin(store, job("a"))
    clock.advance(60)
    [held] = await store.reclaim(10, REAPER)
    async with Caller(another, "a") as caller:
        assert await store.commit([done(old)]) == ["stale"]
        assert await store.commit([done(held)]) == ["written"]
        assert await caller.is_told()


async def test_who_waits_again_after_all_have_left_is_told(store, another):
    [first, second] = await begin(store, job("a"), job("b"))
    for claimed in (first, second):
        async with Caller(another, claimed.id) as caller:
            await store.commit([done(claimed)])
            assert await caller.is_told()
