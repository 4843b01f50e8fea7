"""Gathers that end whatever becomes of their members, and what each tells of them meanwhile."""

import asyncio

import pytest

from mulligan.core.gather import Failure, failure_in, failures_of, progress_of, results_of
from mulligan.core.job import EXPIRED
from mulligan.core.lane import Lane
from mulligan.core.outcome import Cancelled
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import (
    BOB,
    adopted_from,
    again,
    begin,
    claim,
    dead,
    done,
    job,
    names,
    start,
)

ELSEWHERE = Lane("gathered", "default", 0)


def members(count: int, gather: str = "all", **fields):
    return [job(f"m{n}", gather=gather, gather_index=n, **fields) for n in range(count)]


def gathering(count: int, name: str = "all", **fields):
    given = {"return_exceptions": True, **fields}
    return job(name, queue="gathered", awaits=count, **given)


async def gathered(store, count: int, **fields):
    """A gathering job and its members, the members claimed."""
    await store.enqueue([gathering(count, **fields)])
    return await begin(store, *members(count))


async def counts(store, of: int, name: str = "all"):
    """How many are done, failed, cancelled and open."""
    told = progress_of(await store.get(name), of)
    return told.done, told.failed, told.cancelled, told.open


async def failures(store, name: str = "all"):
    return dict(failures_of(await store.arrivals(name)))


async def test_it_starts_when_all_have_ended_with_failures_as_values(store):
    one, two, three = await gathered(store, 3)
    assert (await store.get("all")).return_exceptions
    assert await counts(store, 3) == (0, 0, 0, 3)
    await store.commit([done(one, b'"one"')])
    await store.commit([dead(two, "no route")])
    assert await counts(store, 3) == (1, 1, 0, 1)
    assert names(await claim(store, ELSEWHERE)) == []
    await store.cancel(["m2"], "enough")
    assert await counts(store, 3) == (1, 1, 1, 0)
    arrived = results_of(await store.arrivals("all"))
    assert list(arrived) == [0, 1, 2]
    assert arrived[0] == b'"one"'
    assert failure_in(arrived[1]) == Failure("m1", "ValueError", "no route", 1)
    assert failure_in(arrived[2]) == Failure("m2", "Cancelled", "enough", 1)
    assert names(await claim(store, ELSEWHERE, demand=5)) == ["all"]
    assert await store.commit([done(three)]) == ["stale"]


async def test_members_that_end_in_one_batch_arrive_in_its_order(store):
    claims = await gathered(store, 4)
    outcomes = [
        dead(claims[3]),
        done(claims[0]),
        Cancelled(claims[1].lease, "asked to"),
        dead(claims[2]),
    ]
    assert await store.commit(outcomes) == ["written"] * 4
    assert await counts(store, 4) == (1, 2, 1, 0)
    assert names(await claim(store, ELSEWHERE, demand=5)) == ["all"]
    told = await failures(store)
    assert sorted(told) == [1, 2, 3]
    assert told[1] == Failure("m1", "Cancelled", "asked to", 1)


async def test_the_reason_may_hold_any_text(store):
    odd = "100% \"quoted\" \\ / ☃ \x01 'and' {more}\n\t\u2028"
    [one, _two] = await gathered(store, 2)
    await store.commit([dead(one, odd)])
    await store.cancel(["m1"], odd)
    told = await failures(store)
    assert (told[0].reason, told[1].reason) == (odd, odd)


@pytest.mark.parametrize("by", ["claim", "promote"])
async def test_an_expired_member_arrives_as_a_failure(store, clock, by):
    await store.enqueue([gathering(2), *members(2, expires=5.0)])
    clock.advance(6)
    await (claim(store, demand=5) if by == "claim" else store.promote(10))
    assert await counts(store, 2) == (0, 0, 2, 0)
    assert (await failures(store))[0] == Failure("m0", "Expired", EXPIRED, 0)
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_members_that_expire_in_one_claim_arrive_in_the_order_in_which_they_stood(
    store, clock
):
    lined, plain = members(2, expires=5.0, limits='{"k":1}'), members(3, expires=5.0)[2]
    await store.enqueue([gathering(2), *lined, plain])
    clock.advance(6)
    await claim(store, demand=5)
    assert sorted(await store.arrivals("all")) == [0, 1]


async def test_attempts_are_counted_in_what_arrives(store):
    [one] = await gathered(store, 1)
    await store.commit([again(one)])
    await store.commit([again(await start(store))])
    await store.cancel(["m0"], "enough")
    assert (await failures(store))[0].attempts == 2


async def test_a_member_that_is_replayed_before_the_end_withdraws_its_failure(store):
    one, two = await gathered(store, 2)
    await store.commit([dead(one)])
    assert await store.replay(["m0"]) == [True]
    assert await counts(store, 2) == (0, 0, 0, 2)
    assert await store.arrivals("all") == {}
    await store.commit([done(two, b"2")])
    assert names(await claim(store, ELSEWHERE)) == []
    await store.commit([done(await start(store), b"1")])
    assert await store.arrivals("all") == {0: b"1", 1: b"2"}
    assert await counts(store, 2) == (2, 0, 0, 0)
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_a_replayed_member_may_fail_again(store):
    one, two = await gathered(store, 2)
    await store.commit([dead(one, "first")])
    await store.replay(["m0"])
    await store.commit([dead(await start(store), "second"), done(two)])
    assert (await failures(store))[0].reason == "second"
    assert await counts(store, 2) == (1, 1, 0, 0)
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_a_member_that_is_replayed_after_the_end_changes_nothing(store):
    one, two = await gathered(store, 2)
    await store.commit([dead(one), dead(two)])
    before = await store.arrivals("all")
    assert await store.replay(["m0"]) == [True]
    await store.commit([done(await start(store), b'"late"')])
    assert await store.arrivals("all") == before
    assert await counts(store, 2) == (0, 2, 0, 0)
    gather = await start(store, ELSEWHERE)
    await store.commit([done(gather)])
    assert await store.replay(["m1"]) == [True]
    await store.commit([done(await start(store), b'"later"')])
    assert names(await claim(store, ELSEWHERE)) == []
    assert await counts(store, 2) == (0, 2, 0, 0)


async def test_a_purged_member_stays_arrived(store):
    one, two = await gathered(store, 2)
    await store.commit([dead(one)])
    assert await store.purge(["m0"]) == [True]
    assert await counts(store, 2) == (0, 1, 0, 1)
    await store.commit([done(two)])
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_a_failed_member_of_an_earlier_gather_arrives_when_it_is_purged(store):
    [one] = await gathered(store, 1)
    await store.commit([dead(one, "long ago")])
    await store.commit([done(await start(store, ELSEWHERE))])
    await store.purge(["all"])
    await store.enqueue([gathering(1)])
    assert await store.purge(["m0"]) == [True]
    told = (await failures(store))[0]
    assert (told.type, told.reason) == ("Purged", "ValueError: long ago")
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_pruned_members_stay_arrived(store, clock):
    _one, two = await gathered(store, 2)
    await store.cancel(["m0"], "enough")
    clock.advance(10)
    assert await store.prune(5.0, 10) == 1
    await store.commit([done(two)])
    assert await counts(store, 2) == (1, 0, 1, 0)
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_it_starts_once_for_each_replay_of_its_own(store):
    [one] = await gathered(store, 1)
    await store.commit([dead(one)])
    await store.commit([dead(await start(store, ELSEWHERE))])
    assert await store.replay(["all"]) == [True]
    again_started = await start(store, ELSEWHERE)
    assert (again_started.id, again_started.replay) == ("all", 1)
    assert (await failures(store))[0].job == "m0"
    await store.commit([done(again_started)])
    assert names(await claim(store, ELSEWHERE)) == []


async def test_a_lost_member_arrives_when_it_has_failed_for_good(store, clock):
    [one] = await gathered(store, 1)
    clock.advance(16)
    [lost] = await store.reclaim(10, BOB)
    assert await store.commit([dead(one)]) == ["stale"]
    assert await counts(store, 1) == (0, 0, 0, 1)
    assert await store.commit([dead(lost, "lost")]) == ["written"]
    assert await counts(store, 1) == (0, 1, 0, 0)


async def test_failures_at_once_let_it_start_once(store):
    claims = await gathered(store, 20)
    await asyncio.gather(
        *(store.commit([(done if n % 2 else dead)(each)]) for n, each in enumerate(claims))
    )
    assert await counts(store, 20) == (10, 10, 0, 0)
    assert names(await claim(store, ELSEWHERE, demand=5)) == ["all"]


async def test_without_it_a_failure_is_noted_and_its_member_awaited(store):
    one, two = await gathered(store, 2, return_exceptions=False)
    await store.commit([dead(one, "no route"), done(two, b"2")])
    assert await counts(store, 2) == (1, 1, 0, 0)
    assert (await store.get("all")).awaits == 1
    assert results_of(await store.arrivals("all")) == {1: b"2"}
    assert (await failures(store))[0] == Failure("m0", "ValueError", "no route", 1)
    assert names(await claim(store, ELSEWHERE)) == []
    await store.replay(["m0"])
    assert await counts(store, 2) == (1, 0, 0, 1)
    assert await failures(store) == {}
    await store.commit([done(await start(store), b"1")])
    assert await store.arrivals("all") == {0: b"1", 1: b"2"}
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_without_it_a_cancelled_member_cancels_it_as_before(store):
    await gathered(store, 2, return_exceptions=False)
    await store.cancel(["m0"], "enough")
    assert (await store.get("all")).status == "cancelled"


async def test_a_gather_is_a_member_of_another(store):
    outer = gathering(2, "outer")
    inner = gathering(1, "inner", gather="outer", gather_index=0)
    await store.enqueue([outer, inner])
    [one, other] = await begin(
        store, job("m", gather="inner"), job("n", gather="outer", gather_index=1)
    )
    await store.commit([dead(one), done(other, b"2")])
    first = await start(store, ELSEWHERE)
    assert first.id == "inner"
    await store.commit([dead(first, "inner broke")])
    assert names(await claim(store, ELSEWHERE)) == ["outer"]
    assert (await failures(store, "outer"))[0].reason == "inner broke"


async def test_a_cancelled_gather_arrives_at_another(store):
    outer = gathering(1, "outer")
    inner = gathering(1, "inner", gather="outer", return_exceptions=False)
    await store.enqueue([outer, inner, job("m", gather="inner")])
    await store.cancel(["m"], "enough")
    told = (await failures(store, "outer"))[0]
    assert (told.job, told.type) == ("inner", "Cancelled")
    assert names(await claim(store, ELSEWHERE)) == ["outer"]


async def test_an_adopted_gather_knows_what_has_ended(store, clock):
    other = MemoryStore(clock=clock)
    one, two, _three = await gathered(other, 3)
    await other.commit([dead(one, "no route"), done(two, b"2")])
    copies = await adopted_from(other, "all", "m2", "m0")
    assert await store.adopt(copies) == [True] * 3
    assert await counts(store, 3) == (1, 1, 0, 1)
    assert await store.replay(["m0"]) == [True]
    assert await counts(store, 3) == (1, 0, 0, 2)
    for _ in range(2):
        await store.commit([done(await start(store), b"3")])
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_a_replayed_member_whose_failure_never_arrived_withdraws_nothing(store, clock):
    other = MemoryStore(clock=clock)
    [one] = await begin(other, job("m0", gather="all"))
    await other.commit([dead(one, "no route")])
    await store.enqueue([gathering(2)])
    assert await store.adopt(await adopted_from(other, "m0")) == [True]
    assert await store.replay(["m0"]) == [True]
    assert await counts(store, 2) == (0, 0, 0, 2)
    assert (await store.get("all")).awaits == 2


async def test_a_cancelled_gather_counts_no_more(store):
    one, _two = await gathered(store, 2)
    await store.cancel(["all"], "enough")
    await store.commit([dead(one)])
    assert await counts(store, 2) == (0, 0, 0, 2)
