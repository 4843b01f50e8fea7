"""Keeping: a done or cancelled job is kept for as long as it says, or as whoever prunes says."""

import pytest

from mulligan.core.outcome import Cancelled
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import ANN, FRESH, adopted_from, begin, claim, dead, done, job, jobs

HOUR = 3600.0


async def kept(store, *ids):
    return [id_ for id_ in ids if await store.get(id_) is not None]


async def test_each_job_is_kept_for_its_own_time_and_others_for_the_default(store, clock):
    claims = await begin(store, job("short", keep=15), job("long", keep=86_400), job("plain"))
    await store.commit([done(each) for each in claims])
    clock.advance(15)
    assert await store.prune(HOUR, 100) == 0
    clock.advance(1)
    assert await store.prune(HOUR, 100) == 1
    assert await kept(store, "short", "long", "plain") == ["long", "plain"]
    clock.advance(HOUR)
    assert await store.prune(HOUR, 100) == 1
    clock.advance(86_400)
    assert await store.prune(HOUR, 100) == 1
    assert await kept(store, "short", "long", "plain") == []
    assert (await store.stats()).ended == {}


async def test_readers_see_how_long_a_job_is_kept(store, clock):
    [claimed, _] = await begin(store, job("a", keep=20), job("b"))
    assert (await store.get("a")).keep == 20
    assert (await store.get("b")).keep is None
    await store.commit([done(claimed)])
    assert (await store.get("a")).kept_until(HOUR) == clock.now + 20


@pytest.mark.parametrize("end", ["commit", "cancel", "expire", "promote"])
async def test_a_cancelled_job_is_kept_for_its_own_time(store, clock, end):
    if end == "commit":
        [claimed] = await begin(store, job("a", keep=20))
        await store.commit([Cancelled(claimed.lease, "enough")])
    elif end == "cancel":
        await store.enqueue([job("a", keep=20)])
        await store.cancel(["a"], "enough")
    else:
        await store.enqueue([job("a", keep=20, expires=5.0)])
        clock.advance(6)
        await (claim(store) if end == "expire" else store.promote(10))
    assert (await store.get("a")).status == "cancelled"
    assert await store.prune(0.0, 100) == 0
    clock.advance(21)
    assert await store.prune(HOUR, 100) == 1
    assert await store.get("a") is None


async def test_a_dead_letter_stays_however_short_it_is_kept(store, clock):
    [claimed] = await begin(store, job("a", keep=20))
    await store.commit([dead(claimed)])
    clock.advance(HOUR)
    assert await store.prune(0.0, 100) == 0
    assert await store.replay(["a"]) == [True]
    [again] = (await claim(store, FRESH)).claims
    await store.commit([done(again)])
    assert await store.prune(0.0, 100) == 0
    clock.advance(21)
    assert await store.prune(HOUR, 100) == 1


async def test_a_commit_that_is_sent_again_is_known_until_the_job_is_gone(store, clock):
    [claimed] = await begin(store, job("a", keep=15))
    assert await store.commit([done(claimed)]) == ["written"]
    clock.advance(14)
    await store.prune(0.0, 100)
    assert await store.commit([done(claimed)]) == ["already"]
    clock.advance(2)
    await store.prune(HOUR, 100)
    assert await store.commit([done(claimed)]) == ["stale"]


async def test_pruning_is_bounded_and_goes_on_where_it_stopped(store, clock):
    claims = await begin(store, *jobs("a", "b", "c", keep=15), *jobs("d", "e"))
    await store.commit([done(each) for each in claims])
    clock.advance(HOUR + 1)
    assert [await store.prune(HOUR, 2) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_job_that_takes_the_id_of_a_purged_one_is_kept_for_its_own_time(store, clock):
    [first] = await begin(store, job("a", keep=15))
    await store.commit([done(first)])
    assert await store.purge(["a"]) == [True]
    [second] = await begin(store, job("a"))
    clock.advance(20)
    assert await store.prune(HOUR, 100) == 0
    await store.commit([done(second)])
    clock.advance(20)
    assert await store.prune(HOUR, 100) == 0
    assert await kept(store, "a") == ["a"]


async def test_a_next_job_is_kept_for_its_own_time(store, clock):
    [first] = await begin(store, job("a", keep=15))
    await store.commit([done(first, b"1", job("b", keep=30))])
    assert (await store.get("b")).keep == 30
    clock.advance(16)
    assert await store.prune(HOUR, 100) == 1
    assert await kept(store, "a", "b") == ["b"]


async def test_a_job_that_is_taken_over_is_kept_as_it_said(store, clock):
    other = MemoryStore(clock=clock)
    await other.enqueue([job("a", keep=20)])
    assert await store.adopt(await adopted_from(other, "a")) == [True]
    assert (await store.get("a")).keep == 20
    [claimed] = (await claim(store, FRESH, worker=ANN)).claims
    await store.commit([done(claimed)])
    clock.advance(21)
    assert await store.prune(HOUR, 100) == 1


async def test_many_that_are_kept_long_do_not_hide_what_is_behind_them(store, clock):
    long = await begin(store, *jobs(*(f"long-{n}" for n in range(300)), keep=86_400))
    await store.commit([done(each) for each in long])
    clock.advance(1)
    [plain] = await begin(store, job("plain"))
    await store.commit([done(plain)])
    clock.advance(HOUR + 1)
    assert await store.prune(HOUR, 10) == 1
    [late] = await begin(store, job("late"))
    await store.commit([done(late)])
    clock.advance(HOUR + 1)
    assert await store.prune(HOUR, 10) == 1
    assert await kept(store, "plain", "late", "long-0") == ["long-0"]


async def test_one_that_failed_and_was_cancelled_in_one_moment_is_kept_for_its_time(store, clock):
    [claimed] = await begin(store, job("a", keep=50))
    await store.commit([dead(claimed)])
    await store.replay(["a"])
    await store.cancel(["a"], "enough")
    clock.advance(20)
    assert await store.prune(5.0, 100) == 0
    clock.advance(31)
    assert await store.prune(5.0, 100) == 1
