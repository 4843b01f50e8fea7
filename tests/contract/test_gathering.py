"""Fan-in: a job that awaits others starts when the last of them has arrived, once."""

import asyncio

import pytest

from mulligan.core.job import EXPIRED, Adopted, never_arrives
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit
from mulligan.core.outcome import Cancelled
from mulligan.core.page import Selection
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    again,
    begin,
    claim,
    dead,
    done,
    job,
    names,
    start,
    used,
)
from tests.contract.waits import woken

ELSEWHERE = Lane("gathered", "default", 0)


def members(count: int, gather: str = "all", begin_at: int = 0):
    return [job(f"m{n}", gather=gather, gather_index=n) for n in range(begin_at, begin_at + count)]


def gathering(count: int, name: str = "all", **fields):
    return job(name, queue="gathered", awaits=count, **fields)


async def gathered(store, count: int):
    """A gathering job and its members, the members claimed."""
    await store.enqueue([gathering(count)])
    return await begin(store, *members(count))


async def test_a_gathering_job_stands_in_no_lane_before_its_members_have_arrived(store, clock):
    [one, two] = await gathered(store, 2)
    waiting = await store.get("all")
    assert (waiting.status, waiting.awaits, waiting.waits_for) == ("pending", 2, None)
    assert await store.commit([done(one, b'"one"')]) == ["written"]
    assert (await store.get("all")).awaits == 1
    assert await store.arrivals("all") == {0: b'"one"'}
    claimed = await claim(store, ELSEWHERE)
    assert (claimed.claims, claimed.again_in, claimed.left) == ([], None, (False,))
    assert await store.tail(ELSEWHERE, clock.now) is None
    assert await store.depth(ELSEWHERE, 10) == 0
    clock.advance(3)
    await store.commit([done(two, None)])
    first = await start(store, ELSEWHERE)
    assert (first.id, first.due, used(first)) == ("all", clock.now, 1)
    assert await store.arrivals("all") == {0: b'"one"', 1: None}


async def test_members_may_arrive_in_one_batch_and_in_any_order(store):
    claims = await gathered(store, 5)
    outcomes = [done(each, str(each.id).encode()) for each in reversed(claims)]
    assert await store.commit(outcomes) == ["written"] * 5
    arrived = await store.arrivals("all")
    assert list(arrived.items()) == [(n, f"m{n}".encode()) for n in range(5)]
    assert names(await claim(store, ELSEWHERE, demand=5)) == ["all"]


async def test_no_more_arrive_in_one_batch_than_are_awaited(store):
    await store.enqueue([gathering(2)])
    claims = await begin(store, *members(4))
    assert await store.commit([done(each) for each in claims[:1]]) == ["written"]
    assert await store.commit([done(each) for each in reversed(claims)]) == [
        *["written"] * 3,
        "already",
    ]
    assert await store.arrivals("all") == {0: b"1", 3: b"1"}
    assert names(await claim(store, ELSEWHERE, demand=5)) == ["all"]


async def test_an_arrival_that_is_sent_twice_counts_once(store):
    one, _two = await gathered(store, 2)
    assert await store.commit([done(one)]) == ["written"]
    assert await store.commit([done(one)]) == ["already"]
    assert (await store.get("all")).awaits == 1


async def test_members_that_arrive_at_once_let_the_job_start_once(store):
    claims = await gathered(store, 20)
    await asyncio.gather(*(store.commit([done(each)]) for each in claims))
    assert names(await claim(store, ELSEWHERE, demand=5)) == ["all"]
    assert names(await claim(store, ELSEWHERE, demand=5)) == []


async def test_of_jobs_with_one_id_the_first_is_taken_though_a_later_ones_key_is_wanted(store):
    later = job("j", queue="gathered", unique_key="k")
    awaited = gathering(1, unique_key="k")
    answers = await store.enqueue([job("j"), later, awaited, *members(1)])
    assert [answer.created for answer in answers] == [True, False, True, True]


async def test_a_failed_member_leaves_the_gathering_job_waiting_until_it_is_replayed(store):
    one, two = await gathered(store, 2)
    await store.commit([done(one, b"1"), dead(two)])
    assert (await store.get("all")).awaits == 1
    assert names(await claim(store, ELSEWHERE)) == []
    assert await store.replay(["m1"]) == [True]
    await store.commit([done(await start(store), b"2")])
    assert names(await claim(store, ELSEWHERE)) == ["all"]
    assert await store.arrivals("all") == {0: b"1", 1: b"2"}


async def test_a_retried_member_arrives_when_it_is_done(store):
    [one] = await gathered(store, 1)
    await store.commit([again(one)])
    assert names(await claim(store, ELSEWHERE)) == []
    await store.commit([done(await start(store))])
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_a_cancelled_member_cancels_the_gathering_job(store):
    await store.enqueue([gathering(2), *members(2)])
    assert await store.cancel(["m0"], "no need") == [True]
    ended = await store.get("all")
    assert (ended.status, ended.cancel_reason) == (
        "cancelled",
        "job m0, which it awaits, was cancelled",
    )
    assert (await store.get("m1")).status == "pending"


async def test_so_does_one_that_is_cancelled_by_its_outcome(store):
    one, _two = await gathered(store, 2)
    await store.commit([Cancelled(one.lease, "cannot be stored")])
    assert (await store.get("all")).status == "cancelled"


async def test_so_does_one_that_expires(store, clock):
    members_that_expire = [job("m0", gather="all", gather_index=0, expires=5.0)]
    await store.enqueue([gathering(1), *members_that_expire])
    clock.advance(10)
    await claim(store, FRESH)
    assert (await store.get("all")).status == "cancelled"
    await store.enqueue([gathering(1, "both"), job("n0", gather="both", expires=5.0, delay=60.0)])
    clock.advance(10)
    await store.promote(100)
    assert (await store.get("both")).status == "cancelled"


async def test_so_does_a_failed_one_that_is_purged(store):
    one, _two = await gathered(store, 2)
    await store.commit([dead(one)])
    assert await store.purge(["m0"]) == [True]
    ended = await store.get("all")
    assert (ended.status, ended.cancel_reason) == (
        "cancelled",
        "job m0, which it awaits, was purged",
    )


async def test_a_member_that_arrived_may_be_purged(store):
    one, two = await gathered(store, 2)
    await store.commit([done(one)])
    await store.purge(["m0"])
    await store.commit([done(two)])
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_cancelling_goes_up_through_gathering_jobs_that_await_each_other(store):
    await store.enqueue(
        [gathering(1, "top"), gathering(1, gather="top", gather_index=0), *members(1)]
    )
    await store.cancel(["m0"], "no need")
    assert (await store.get("top")).status == "cancelled"
    assert (await store.get("top")).cancel_reason == "job all, which it awaits, was cancelled"


async def test_a_gathering_job_may_be_cancelled_and_its_members_go_on(store):
    one, two = await gathered(store, 2)
    await store.commit([done(one)])
    assert await store.cancel(["all"], "no need") == [True]
    assert await store.commit([done(two)]) == ["written"]
    assert (await store.get("all")).status == "cancelled"
    assert await store.arrivals("all") == {0: b"1"}


async def test_a_member_whose_gathering_job_is_unknown_is_done_all_the_same(store):
    [one] = await begin(store, job("m0", gather="nobody", gather_index=0))
    assert await store.commit([done(one)]) == ["written"]
    assert await store.arrivals("nobody") == {}


async def test_a_gathering_job_and_its_members_come_with_the_stage_that_makes_them(store):
    [first] = await begin(store, job("a"))
    await store.commit([done(first, b"[]", gathering(2), *members(2))])
    claims = (await claim(store, FRESH, demand=5)).claims
    assert [each.id for each in claims] == ["m0", "m1"]
    await store.commit([done(each) for each in claims])
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_what_arrived_is_there_when_the_gathering_job_is_retried_or_replayed(store):
    [one] = await gathered(store, 1)
    await store.commit([done(one, b"1")])
    first = await start(store, ELSEWHERE)
    lane = Lane("gathered", "*", 1)
    await store.commit([again(first, lane=lane)])
    await store.commit([dead(await start(store, lane))])
    await store.replay(["all"])
    assert names(await claim(store, ELSEWHERE)) == ["all"]
    assert await store.arrivals("all") == {0: b"1"}


async def test_what_arrived_is_deleted_with_the_gathering_job(store, clock):
    [one] = await gathered(store, 1)
    await store.commit([done(one, b"1")])
    await store.commit([done(await start(store, ELSEWHERE))])
    clock.advance(10)
    await store.prune(5, 100)
    assert await store.get("all") is None
    assert await store.arrivals("all") == {}
    [again_one] = await gathered(store, 1)
    assert await store.arrivals("all") == {}
    await store.commit([done(again_one, b"2")])
    await store.commit([dead(await start(store, ELSEWHERE))])
    await store.purge(["all"])
    assert await store.arrivals("all") == {}


async def test_gathering_jobs_are_counted_apart(store, clock):
    await gathered(store, 2)
    stats = await store.stats()
    assert stats.gathering == {"gathered": 1}
    assert [each.lane for each in stats.lanes] == []
    assert stats.delayed == {}
    [shown] = (await store.page(Selection(queue="gathered"), 10)).jobs
    assert (shown.id, shown.awaits, shown.status) == ("all", 2, "pending")
    members_shown = (await store.page(Selection(queue="default"), 10)).jobs
    assert {(each.gather, each.gather_index) for each in members_shown} == {("all", 0), ("all", 1)}


async def test_the_last_arrival_wakes_who_sleeps_for_the_gathering_job(store):
    [one] = await gathered(store, 1)
    await claim(store, ELSEWHERE, worker=BOB)
    await store.commit([done(one)])
    assert await woken(store, BOB)


async def test_a_gathering_job_may_expire(store, clock):
    await store.enqueue([gathering(2, expires=5.0)])
    clock.advance(10)
    await store.promote(100)
    assert (await store.get("all")).status == "cancelled"


async def test_of_those_that_expire_at_the_same_time_the_first_that_came_ends_first(store, clock):
    numbers = range(9)
    for n in numbers:
        expires = 5.0 - n % 3
        await store.enqueue([job(f"first {n}", awaits=1, expires=expires)])
        await store.enqueue([job(f"m{n}", gather=f"first {n}", expires=expires)])
        await store.enqueue([job(f"n{n}", gather=f"second {n}", expires=expires)])
        await store.enqueue([job(f"second {n}", awaits=1, expires=expires)])
    clock.advance(5)
    await store.promote(100)
    for n in numbers:
        reason = never_arrives(f"n{n}", "cancelled")
        assert (await store.get(f"first {n}")).cancel_reason == EXPIRED
        assert (await store.get(f"second {n}")).cancel_reason == reason


async def test_a_gathering_job_is_taken_over_with_what_has_arrived(store, clock):
    other = MemoryStore(clock=clock)
    one, _two = await gathered(other, 2)
    await other.commit([done(one, b"1")])
    waiting = await other.get("all")
    assert waiting is not None
    await store.adopt([Adopted(waiting, [], await other.arrivals("all"))])
    assert (await store.get("all")).awaits == 1
    [two] = await begin(store, job("m1", gather="all", gather_index=1))
    await store.commit([done(two, b"2")])
    assert names(await claim(store, ELSEWHERE)) == ["all"]
    assert await store.arrivals("all") == {0: b"1", 1: b"2"}


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.prove)])
async def test_any_number_of_members_is_enqueued_with_the_stage_that_makes_them(store, count):
    [first] = await begin(store, job("a"))
    await store.commit([done(first, b"[]", gathering(count), *members(count))])
    assert (await store.get("all")).awaits == count
    claims = (await claim(store, FRESH, demand=count // 10)).claims
    await store.commit([done(each) for each in claims])
    assert (await store.get("all")).awaits == count - count // 10
    assert len(await store.arrivals("all")) == count // 10


async def test_a_gathering_job_with_limits_waits_for_its_members_first(store):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.enqueue([gathering(1, limits='{"k":1}')])
    [other] = await begin(store, job("other", limits='{"k":1}'))
    await store.commit([done(other)])
    assert names(await claim(store, ELSEWHERE, worker=ANN)) == []
    assert (await store.get("all")).awaits == 1


async def test_a_key_is_kept_in_the_queue_that_it_was_given_for(store):
    [first] = await begin(store, job("a", unique_key="k"))
    later = job("a.2", queue="upload", unique_key="k", unique_in="default")
    await store.commit([done(first, b"1", later)])
    assert (await store.get("a.2")).unique_in == "default"
    [again_first] = await store.enqueue([job("b", unique_key="k")])
    assert (again_first.id, again_first.created) == ("a.2", False)
    [own] = await store.enqueue([job("c", queue="upload", unique_key="k")])
    assert own.created
    second = await start(store, Lane("upload", "default", 0))
    await store.commit([done(second)])
    assert (await store.enqueue([job("b", unique_key="k")]))[0].created
