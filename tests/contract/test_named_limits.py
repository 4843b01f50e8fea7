"""Limits that jobs name: how many run at a time and how many start, whichever lane they are in."""

from itertools import pairwise, product

import pytest
from msgspec.structs import replace

from mulligan.core.lane import Lane
from mulligan.core.limits import (
    FOREVER,
    LATEST,
    LONG_UNIT,
    LONGEST_PER,
    PARTS,
    SECOND,
    Limit,
    LimitState,
    StoredLimit,
    charge,
    costs_text,
    micros,
    recount,
    view_of,
)
from mulligan.core.outcome import Cancelled, Done, Limited, LimitUse, Returned
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    REAPER,
    RETRY,
    again,
    begin,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
    start,
    used,
)

EU = Lane("default", "EU", 0)


def limited(*ids, limits="k", **fields):
    """Jobs that name these limits, each at a cost of 1 unless told otherwise."""
    costs = limits if isinstance(limits, dict) else dict.fromkeys(limits.split(), 1)
    return [job(each, limits=costs_text(costs), **fields) for each in ids]


async def one_at_a_time(store, name="k", **limit):
    await store.set_limit(name, Limit(**(limit or {"concurrency": 1})), declared=True)


async def pause_left(store, name="k"):
    """How long the limit is still paused."""
    now = (await store.facts()).now
    [until] = [view.paused_until for view in await store.limits(9) if view.name == name]
    return until - now


async def waits_for(store, *ids):
    return [(await store.get(each)).waits_for for each in ids]


# -- how many at a time --------------------------------------------------------------------------


async def test_one_at_a_time_and_the_others_wait_without_holding_up_the_lane(store):
    await one_at_a_time(store)
    await store.enqueue([*limited("k1", "k2", "k3"), job("free")])
    assert names(await claim(store, demand=9)) == ["k1", "free"]
    stored = await store.get("k2")
    assert (stored.status, stored.waits_for, used(stored)) == ("pending", "k", 0)
    assert (stored.limits, stored.fairness_key) == ('{"k":1}', None)
    assert await waits_for(store, "k1", "k3") == [None, "k"]


async def test_a_job_that_waits_for_a_permit_is_not_claimable_work(store):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2"))
    claimed = await claim(store, demand=2)
    assert (names(claimed), claimed.left, claimed.again_in) == (["k1"], (False,), None)


async def test_a_claim_says_which_limits_its_job_names(store, clock):
    await one_at_a_time(store, concurrency=9)
    await store.enqueue([*limited("k1", limits={"k": 2, "l": 1}), *limited("k2"), job("free")])
    claimed = (await claim(store, demand=9)).claims
    found = {"k1": '{"k":2,"l":1}', "k2": '{"k":1}', "free": None}
    assert {each.id: each.limits for each in claimed} == found
    clock.advance(60)
    assert {each.id: each.limits for each in await store.reclaim(9, REAPER)} == found


@pytest.mark.parametrize("burst", [None, 5])
async def test_what_is_spent_is_waited_off_by_who_comes_next(store, clock, burst):
    await one_at_a_time(store, rate=5, per=10, burst=burst)
    await store.spend("k", 4)
    await store.enqueue(limited("k1", "k2"))
    assert names(await claim(store, demand=9)) == ["k1"]
    await store.spend("k", 1)
    assert [view.used for view in await store.limits(9)] == [6]
    clock.advance(2 if burst else 5)
    assert names(await claim(store, demand=9)) == []
    clock.advance(2 if burst else 5)
    assert names(await claim(store, demand=9)) == ["k2"]


async def test_what_is_spent_of_no_limit_leaves_nothing_behind(store):
    await store.spend("k", 4)
    assert await store.limits(9) == []


async def test_a_name_that_no_limit_covers_limits_nothing(store):
    await store.enqueue(limited("k1", "k2", "k3"))
    assert names(await claim(store, demand=9)) == ["k1", "k2", "k3"]


async def test_a_job_that_waits_keeps_its_position_in_the_lane_for_those_who_ask(store):
    await one_at_a_time(store)
    await store.enqueue([*limited("k1", "k2", "k3"), job("free")])
    await start(store)
    assert [await store.ahead(each) for each in ("k2", "k3", "free")] == [0, 1, 2]
    assert names(await claim(store, demand=9)) == ["free"]
    await store.enqueue([job("last")])
    assert [await store.ahead(each) for each in ("k2", "k3", "last")] == [0, 1, 2]
    assert await store.depth(FRESH, 9) == 1


async def test_the_end_of_one_lets_the_next_go_in_its_old_position(store, clock):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2", "k3"))
    first = (await claim(store, demand=9)).claims[0]
    clock.advance(5)
    await store.enqueue([job("younger")])
    await store.commit([done(first)])
    assert await waits_for(store, "k2") == [None]
    claimed = await claim(store, demand=9)
    assert names(claimed) == ["k2", "younger"]
    assert claimed.claims[0].due == first.due


async def test_so_many_run_at_a_time_across_clients(store, another):
    await one_at_a_time(store, concurrency=2)
    await store.enqueue(limited("k1", "k2", "k3", "k4"))
    first = await start(store)
    assert names(await claim(another, demand=9, worker=BOB)) == ["k2"]
    assert names(await claim(store, demand=9)) == []
    await another.commit([done(first)])
    assert names(await claim(store, demand=9)) == ["k3"]


async def test_a_limit_is_one_in_all_queues_regions_and_lanes(store):
    await one_at_a_time(store)
    await store.enqueue(
        [
            *limited("a"),
            *limited("b", queue="mail"),
            *limited("c", region="EU"),
            *limited("d", priority=2),
        ]
    )
    lanes = (FRESH, Lane("mail", "default", 0), EU, Lane("default", "default", 2))
    seen = []
    for _ in range(4):
        claimed = await claim(store, *lanes, demand=9)
        assert len(claimed.claims) == 1
        seen += names(claimed)
        await store.commit([done(each) for each in claimed.claims])
    assert sorted(seen) == ["a", "b", "c", "d"]


async def test_different_names_do_not_meet(store):
    for name in "xy":
        await one_at_a_time(store, name)
    await store.enqueue([*limited("a", limits="x"), *limited("b", limits="y")])
    await store.enqueue(limited("c", limits="x"))
    assert names(await claim(store, demand=9)) == ["a", "b"]


async def test_a_pattern_is_a_limit_for_each_name_and_the_longest_holds(store):
    await one_at_a_time(store, "t:*")
    await one_at_a_time(store, "t:big*", concurrency=2)
    await one_at_a_time(store, "t:big:own", concurrency=3)
    for name in ("t:a", "t:b", "t:big", "t:big:own"):
        await store.enqueue(limited(*(f"{name} {n}" for n in range(4)), limits=name))
    assert sorted(names(await claim(store, demand=99))) == [
        *("t:a 0", "t:b 0", "t:big 0", "t:big 1"),
        *("t:big:own 0", "t:big:own 1", "t:big:own 2"),
    ]


async def test_many_jobs_of_one_limit_all_run_in_order_and_never_together(store):
    await one_at_a_time(store)
    many = [f"k{n:02}" for n in range(25)]
    await store.enqueue(limited(*many))
    seen = []
    while claimed := (await claim(store, demand=9)).claims:
        assert len(claimed) == 1
        seen += [each.id for each in claimed]
        await store.commit([done(claimed[0])])
    assert seen == many


async def test_the_first_of_every_lane_may_go_and_only_one_of_them_starts(store):
    await one_at_a_time(store)
    await store.enqueue([*limited("k1", "k2", "k3"), *limited("e2", "e3", region="EU")])
    first = (await claim(store, FRESH, EU, demand=9)).claims[0]
    await store.commit([done(first)])
    second = await start(store, EU, worker=BOB)
    assert second.id == "e2"
    assert names(await claim(store, FRESH, demand=9)) == []
    await store.commit([done(second)])
    assert names(await claim(store, FRESH, demand=9)) == ["k2"]


# -- permits are freed however a job ends --------------------------------------------------------


async def test_cancelling_the_running_one_lets_the_next_go(store):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2"))
    await claim(store, demand=9)
    await store.cancel(["k1"], "enough")
    assert names(await claim(store, demand=9)) == ["k2"]


async def test_a_running_one_that_ends_as_cancelled_lets_the_next_go(store):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2"))
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([Cancelled(first.lease, "enough")])
    assert names(await claim(store, demand=9)) == ["k2"]


async def test_cancelling_the_one_that_was_next_lets_the_one_behind_it_go(store):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2", "k3"))
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([done(first)])
    await store.cancel(["k2"], "enough")
    assert names(await claim(store, demand=9)) == ["k3"]


async def test_one_that_waits_may_be_cancelled(store):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2", "k3"))
    first = (await claim(store, demand=9)).claims[0]
    assert await store.cancel(["k2"], "enough") == [True]
    stored = await store.get("k2")
    assert (stored.status, stored.waits_for) == ("cancelled", None)
    await store.commit([done(first)])
    assert names(await claim(store, demand=9)) == ["k3"]


async def test_one_that_waits_expires_like_any_other(store, clock):
    await one_at_a_time(store)
    await store.enqueue([*limited("k1"), *limited("late", expires=10.0), *limited("k3")])
    first = (await claim(store, demand=9)).claims[0]
    clock.advance(10)
    await store.promote(100)
    stored = await store.get("late")
    assert (stored.status, stored.waits_for) == ("cancelled", None)
    assert stored.cancel_reason == "expired before it could start"
    await store.commit([done(first)])
    assert names(await claim(store, demand=9)) == ["k3"]


async def test_one_claim_ends_what_expired_and_starts_the_next(store, clock):
    await one_at_a_time(store)
    await store.enqueue([*limited("k1"), *limited("late", "later", expires=10.0), *limited("k4")])
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([done(first)])
    clock.advance(20)
    assert names(await claim(store, demand=1)) == ["k4"]
    assert [(await store.get(each)).status for each in ("late", "later")] == ["cancelled"] * 2


async def test_a_retry_gives_up_its_permit_while_it_waits_and_asks_for_it_again(store, clock):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2"))
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([again(first, delay=2.0)])
    second = await start(store)
    assert second.id == "k2"
    clock.advance(2)
    assert names(await claim(store)) == []
    assert await waits_for(store, "k1") == ["k"]
    await store.commit([done(second)])
    assert names(await claim(store)) == ["k1"]


async def test_returned_gives_up_the_permit_and_keeps_its_position_before_those_who_wait(store):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2"))
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([Returned(first.lease)])
    assert names(await claim(store, demand=9)) == ["k1"]


async def test_a_reclaimed_job_gives_up_its_permit(store, clock):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2"))
    await claim(store, demand=9)
    clock.advance(ANN.lease)
    await store.reclaim(10, REAPER)
    assert names(await claim(store, demand=9, worker=BOB)) == ["k2"]


async def test_a_dead_letter_gives_up_its_permit_and_its_replay_asks_for_it_again(store):
    await one_at_a_time(store)
    [first] = await begin(store, *limited("k1"))
    await store.commit([dead(first)])
    [second] = await begin(store, *limited("k2"))
    await store.replay(["k1"])
    assert names(await claim(store, demand=9)) == []
    await store.commit([again(second)])
    assert names(await claim(store, FRESH, demand=9)) == ["k1"]
    assert names(await claim(store, RETRY, demand=9)) == []


async def test_a_stale_outcome_frees_no_permit_of_another(store, clock):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2"))
    first = (await claim(store, demand=9)).claims[0]
    clock.advance(ANN.lease)
    [lost] = await store.reclaim(10, REAPER)
    assert names(await claim(store, demand=9, worker=BOB)) == ["k2"]
    assert await store.commit([done(first)]) == ["stale"]
    assert await store.commit([again(lost)]) == ["written"]
    assert names(await claim(store, demand=9, worker=BOB)) == []


# -- rates ---------------------------------------------------------------------------------------


async def test_so_many_start_in_any_window_and_the_worker_is_told_when_there_is_room(store, clock):
    await one_at_a_time(store, rate=2, per=10.0)
    await store.enqueue(limited("k1", "k2", "k3", "k4"))
    assert names(await claim(store)) == ["k1"]
    clock.advance(4)
    claimed = await claim(store, demand=9)
    assert (names(claimed), claimed.again_in) == (["k2"], 6.0)
    await store.commit([done(claimed.claims[0])])
    assert names(await claim(store, demand=9)) == []
    clock.advance(6)
    claimed = await claim(store, demand=9)
    assert (names(claimed), claimed.again_in) == (["k3"], 4.0)


async def test_a_bucket_lets_a_burst_through_and_then_its_rate(store, clock):
    await one_at_a_time(store, rate=1, per=2.0, burst=3)
    await store.enqueue(limited(*(f"k{n}" for n in range(9))))
    claimed = await claim(store, demand=9)
    assert (names(claimed), claimed.again_in) == (["k0", "k1", "k2"], 2.0)
    clock.advance(1)
    assert (await claim(store, demand=9)).again_in == 1.0
    clock.advance(3)
    assert names(await claim(store, demand=9)) == ["k3", "k4"]


async def test_a_full_bucket_lets_as_many_start_at_once_as_it_holds(store, clock):
    await store.set_limit("k", Limit(rate=380, burst=4), declared=True)
    await store.enqueue(jobs(*(f"j{n}" for n in range(12)), limits='{"k":1}'))
    for _ in range(2):
        assert len((await claim(store, demand=9)).claims) == 4
        assert (await store.limits(9))[0].used == 4
        clock.advance(0.25)


# On both sides of what core rounds in another way.
ROUNDED = (
    Limit(rate=1000, per=1000 * (LONG_UNIT - 0.5) / SECOND, burst=7),
    Limit(rate=1000, per=1000 * (LONG_UNIT + 0.5) / SECOND, burst=7),
    Limit(rate=PARTS),
    Limit(rate=PARTS + 1),
)


async def test_a_store_rounds_what_is_used_where_core_does(store, clock):
    now, expected = micros(clock.now), []
    for number, (limit, replaces) in enumerate(product(ROUNDED, (False, True))):
        name, cost, state = f"k{number}", limit.most_cost or 1, LimitState(starts=[])
        was = Limit(rate=1, burst=cost) if replaces else limit
        charge(was, state, cost, now)
        recount(was, limit, state, now)
        expected.append(view_of(name, StoredLimit(limit), limit, state, waiting=0, now=clock.now))
        await store.set_limit(name, was, declared=True)
        await store.enqueue(limited(name, limits={name: cost}))
        assert names(await claim(store)) == [name]
        await store.set_limit(name, limit, declared=True)
    views = await store.limits(9)
    used = [(view.name, view.used, view.room_at) for view in views]
    assert used == [(view.name, view.used, view.room_at) for view in expected]
    assert all(view.room_at > clock.now for view in views)


@pytest.mark.parametrize("burst", [None, 5])
async def test_costs_are_charged(store, clock, burst):
    await one_at_a_time(store, rate=5, per=10.0, burst=burst)
    await store.enqueue([*limited("a", limits={"k": 4}), *limited("b", limits={"k": 2})])
    claimed = await claim(store, demand=9)
    assert names(claimed) == ["a"]
    clock.advance(claimed.again_in)
    assert names(await claim(store, demand=9)) == ["b"]


async def test_a_cheap_job_does_not_pass_a_dear_one_that_waits_at_the_limit(store, clock):
    await one_at_a_time(store, rate=5, per=10.0)
    await one_at_a_time(store, "other", rate=100, per=1.0)
    await store.enqueue(limited("first", limits={"k": 3}))
    assert names(await claim(store, demand=9)) == ["first"]
    await store.enqueue(limited("dear", limits={"k": 5}))
    assert names(await claim(store, demand=9)) == []
    await store.enqueue([*limited("cheap", limits={"k": 1, "other": 1}), job("free")])
    assert names(await claim(store, demand=9)) == ["free"]
    clock.advance(10)
    assert names(await claim(store, demand=9)) == ["dear"]


async def test_a_cost_above_a_limit_that_was_lowered_starts_when_nothing_is_used(store, clock):
    await one_at_a_time(store, rate=9, per=10.0)
    await store.enqueue([*limited("a"), *limited("b", limits={"k": 9})])
    await claim(store)
    await one_at_a_time(store, rate=2, per=10.0)
    assert names(await claim(store, demand=9)) == []
    clock.advance(10)
    assert names(await claim(store, demand=9)) == ["b"]


@pytest.mark.parametrize("burst", [None, 2])
async def test_what_is_given_back_unstarted_is_refunded(store, burst):
    await one_at_a_time(store, rate=2, per=10.0, burst=burst)
    await store.enqueue(limited("k1", "k2", "k3"))
    first, _ = (await claim(store, demand=9)).claims
    await store.commit([Returned(first.lease)])
    assert names(await claim(store, demand=9)) == ["k1"]


@pytest.mark.parametrize("outcome", [done, again, dead])
async def test_every_attempt_is_charged_however_it_ends(store, clock, outcome):
    await one_at_a_time(store, rate=1, per=10.0)
    await store.enqueue(limited("k1", "k2"))
    await store.commit([outcome(await start(store))])
    assert (await claim(store, FRESH, demand=9)).again_in == 10.0
    clock.advance(10)
    assert names(await claim(store, FRESH, demand=9)) == ["k2"]


async def test_a_lost_attempt_is_charged(store, clock):
    await one_at_a_time(store, rate=1, per=60.0)
    await store.enqueue(limited("k1", "k2"))
    await start(store)
    clock.advance(ANN.lease)
    await store.reclaim(10, REAPER)
    assert names(await claim(store, worker=BOB)) == []


@pytest.mark.parametrize("rate", [100, pytest.param(1000, marks=pytest.mark.prove)])
async def test_a_rate_is_never_exceeded_and_nearly_all_of_it_is_used(store, clock, rate):
    await one_at_a_time(store, rate=rate, per=1.0)
    await store.enqueue_all(limited(*(f"k{n}" for n in range(int(2.6 * rate)))))
    starts = []
    for _ in range(125):
        claimed = await claim(store, demand=500)
        starts += [clock.now] * len(claimed.claims)
        clock.advance(0.02)
    for first, last in zip(starts, starts[rate:], strict=False):
        assert last - first >= 1.0 - 1e-6
    assert len(starts) >= 2.5 * rate * 0.98
    assert all(before <= after for before, after in pairwise(starts))


# -- several limits ------------------------------------------------------------------------------


async def test_a_job_short_of_one_of_its_limits_takes_from_none(store):
    await one_at_a_time(store, "a")
    await one_at_a_time(store, "b")
    await store.enqueue([*limited("b1", limits="b"), *limited("both", limits="a b")])
    await store.enqueue(limited("a1", limits="a"))
    claimed = await claim(store, demand=9)
    assert names(claimed) == ["b1", "a1"]
    await store.commit([done(claimed.claims[1])])
    assert names(await claim(store, demand=9)) == []
    await store.commit([done(claimed.claims[0])])
    assert names(await claim(store, demand=9)) == ["both"]


async def test_all_limits_of_a_job_are_charged_and_freed(store):
    await one_at_a_time(store, "a")
    await one_at_a_time(store, "b", concurrency=2)
    await store.enqueue([*limited("both", limits="a b"), *limited("b1", "b2", limits="b")])
    claimed = await claim(store, demand=9)
    assert names(claimed) == ["both", "b1"]
    await store.enqueue(limited("a1", limits="a"))
    assert names(await claim(store, demand=9)) == []
    await store.commit([done(claimed.claims[0])])
    assert sorted(names(await claim(store, demand=9))) == ["a1", "b2"]


# -- pauses and what a job spends ----------------------------------------------------------------


async def test_an_outcome_may_pause_a_limit_for_everybody(store, clock):
    await one_at_a_time(store, concurrency=9)
    await store.enqueue([*limited("k1", "k2"), *limited("e1", region="EU"), job("free")])
    first = await start(store)
    assert await store.commit([Done(first.lease, b"1", use=LimitUse((), (("k", 20.0),)))]) == [
        "written"
    ]
    claimed = await claim(store, FRESH, EU, demand=9)
    assert (names(claimed), claimed.again_in) == (["free"], 20.0)
    clock.advance(20)
    assert sorted(names(await claim(store, FRESH, EU, demand=9))) == ["e1", "k2"]


async def test_a_permit_is_free_before_a_later_outcome_of_the_batch_pauses_its_limit(store):
    """Each outcome is written whole, what it frees included, before the next one is."""
    await one_at_a_time(store, concurrency=2)
    first, second = await begin(store, *limited("k1", "k2"))
    await store.enqueue(limited("k3"))
    await claim(store)
    assert await waits_for(store, "k3") == ["k"]
    pausing = Done(second.lease, use=LimitUse(pauses=(("k", 60.0),)))
    assert await store.commit([done(first), pausing]) == ["written"] * 2
    assert await waits_for(store, "k3") == [None]


async def test_a_retry_after_pauses_those_limits_of_the_job_that_say_so(store):
    await one_at_a_time(store, "api", concurrency=9, pause_on_retry_after=True)
    await one_at_a_time(store, "other", concurrency=9)
    await store.enqueue(limited("a1", "a2", limits="api other"))
    await store.enqueue([*limited("o1", limits="other"), *limited("b1", limits="api")])
    first = await start(store)
    outcome = replace(again(first, delay=20.0), use=LimitUse(retry_after=20.0))
    assert await store.commit([outcome]) == ["written"]
    claimed = await claim(store, FRESH, demand=9)
    assert (names(claimed), claimed.again_in) == (["o1"], 20.0)


async def test_a_shorter_pause_does_not_end_a_longer_one(store, clock):
    await one_at_a_time(store, concurrency=9)
    await store.enqueue(limited("k1", "k2", "k3"))
    first, second = (await claim(store, demand=2)).claims
    await store.commit([Done(first.lease, b"1", use=LimitUse((), (("k", 20.0),)))])
    await store.commit([Done(second.lease, b"1", use=LimitUse((), (("k", 5.0),)))])
    assert (await claim(store)).again_in == 20.0


async def test_an_operator_pauses_a_limit_and_ends_the_pause(store):
    await one_at_a_time(store)
    await store.enqueue(limited("k1"))
    await store.pause_limit("k", FOREVER)
    claimed = await claim(store)
    assert (names(claimed), claimed.again_in) == ([], None)
    await store.pause_limit("k", 0.0)
    assert names(await claim(store)) == ["k1"]


async def test_a_pause_for_at_least_so_long_leaves_a_longer_one(store):
    await store.pause_limit("k", 20.0)
    for seconds, rest in ((5.0, 20.0), (0.0, 20.0), (30.0, 30.0), (FOREVER, FOREVER)):
        await store.pause_limit("k", seconds, at_least=True)
        assert await pause_left(store) == rest
    await store.pause_limit("k", 5.0)
    assert await pause_left(store) == 5.0


async def test_a_stale_outcome_pauses_and_spends_nothing(store):
    await one_at_a_time(store, rate=5, per=60.0)
    await store.enqueue(limited("k1", "k2"))
    first = await start(store)
    await store.cancel(["k1"], "enough")
    use = LimitUse((("k", 5),), (("k", 20.0),))
    assert await store.commit([Done(first.lease, b"1", use=use)]) == ["stale"]
    assert names(await claim(store)) == ["k2"]


@pytest.mark.parametrize("burst", [None, 10])
async def test_what_a_job_spent_besides_is_charged_once_and_waited_off(store, clock, burst):
    await one_at_a_time(store, rate=10, per=10.0, burst=burst)
    await store.enqueue(limited("k1", "k2"))
    first = await start(store)
    outcome = Done(first.lease, b"1", use=LimitUse((("k", 14),)))
    assert await store.commit([outcome]) == ["written"]
    assert await store.commit([outcome]) == ["already"]
    claimed = await claim(store)
    assert names(claimed) == []
    assert claimed.again_in == (10.0 if burst is None else 6.0)
    clock.advance(claimed.again_in)
    assert names(await claim(store)) == ["k2"]


async def test_a_debt_of_ages_is_written_and_ends_when_the_rate_is_raised(store, clock):
    """It is more than the largest number of some stores, which must not hold up the outcome."""
    await one_at_a_time(store, rate=1, per=LONGEST_PER, burst=1)
    await store.enqueue(limited("k1", "k2"))
    first = await start(store)
    outcome = Done(first.lease, b"1", use=LimitUse((("k", 10**13),)))
    assert await store.commit([outcome]) == ["written"]
    await store.spend("k", 10**13)
    claimed = await claim(store)
    assert (names(claimed), (claimed.again_in or 0.0) > LONGEST_PER) == ([], True)
    await one_at_a_time(store, rate=1000, burst=1)
    wait = (await claim(store)).again_in
    assert wait == pytest.approx((LATEST / SECOND - clock.now) / LONGEST_PER / 1000, abs=2e-3)
    clock.advance(wait)
    assert names(await claim(store)) == ["k2"]


# -- changing limits -----------------------------------------------------------------------------


async def test_a_raised_limit_lets_those_go_who_wait(store):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2", "k3", "k4"))
    assert names(await claim(store, demand=9)) == ["k1"]
    await one_at_a_time(store, concurrency=3)
    assert names(await claim(store, demand=9)) == ["k2", "k3"]


async def test_a_freed_permit_lets_one_line_of_a_lane_go_on_and_no_other(store):
    """Those behind it are not looked at again until it is gone."""
    await one_at_a_time(store)
    for key in "abcd":
        await store.enqueue(limited(f"{key}0", f"{key}1", fairness_key=key))
    [first] = (await claim(store, demand=9)).claims
    assert await waits_for(store, *["a1", "b0", "c0", "d0"]) == ["k"] * 4
    await store.commit([done(first)])
    assert await waits_for(store, *["a1", "b0", "c0", "d0"]) == ["k", None, "k", "k"]
    [second] = (await claim(store, demand=9)).claims
    assert second.id == "b0"
    assert await waits_for(store, *["a1", "c0", "d0", "b1"]) == ["k"] * 4


async def test_a_lowered_limit_takes_nothing_back(store):
    await one_at_a_time(store, concurrency=3)
    await store.enqueue(limited("k1", "k2", "k3", "k4"))
    running = (await claim(store, demand=9)).claims
    await one_at_a_time(store)
    assert await store.commit([done(each) for each in running[:2]]) == ["written"] * 2
    assert names(await claim(store, demand=9)) == []
    await store.commit([done(running[2])])
    assert names(await claim(store, demand=9)) == ["k4"]


async def test_what_an_operator_sets_wins_until_it_is_reset(store):
    await one_at_a_time(store)
    await store.set_limit("k", Limit(concurrency=3), declared=False)
    await one_at_a_time(store, concurrency=2)
    await store.enqueue(limited("k1", "k2", "k3", "k4"))
    assert names(await claim(store, demand=9)) == ["k1", "k2", "k3"]
    await store.set_limit("k", None, declared=False)
    [view] = await store.limits(10)
    assert view.in_force == Limit(concurrency=2)


@pytest.mark.parametrize(
    ("was", "then", "wait"),
    [
        ({"rate": 1, "per": 1.0, "burst": 4}, {"rate": 10, "per": 1.0, "burst": 4}, 0.1),
        ({"rate": 10, "per": 1.0, "burst": 4}, {"rate": 1, "per": 1.0, "burst": 4}, 1.0),
        ({"rate": 1, "per": 1.0, "burst": 4}, {"rate": 4, "per": 10.0}, 10.0),
        ({"rate": 4, "per": 10.0}, {"rate": 4, "per": 10.0, "burst": 2}, 5.5),
        ({"rate": 4, "per": 10.0}, {"rate": 8, "per": 2.0, "burst": 5}, 0.0),
    ],
)
async def test_what_is_used_counts_under_the_rate_that_replaces_the_other(
    store, clock, was, then, wait
):
    """A higher rate lets jobs start at once, and a lower one does not let more start."""
    await one_at_a_time(store, "k:*", **was)
    await store.enqueue(limited(*(f"k{n}" for n in range(9)), limits="k:a"))
    assert len((await claim(store, demand=9)).claims) == 4
    clock.advance(2)
    await claim(store, demand=9)
    await store.set_limit("k:*", Limit(**then), declared=False)
    claimed = await claim(store)
    assert (claimed.again_in or 0.0) == pytest.approx(wait, abs=2e-6)
    clock.advance(wait + 2e-6)
    assert len((await claim(store)).claims) == 1


async def test_jobs_that_ran_before_there_was_a_limit_count(store):
    await store.enqueue(limited("k1", "k2", "k3"))
    assert names(await claim(store, demand=2)) == ["k1", "k2"]
    await one_at_a_time(store, concurrency=2)
    assert names(await claim(store, demand=9)) == []


async def test_a_limit_that_is_gone_lets_all_go(store):
    await one_at_a_time(store)
    await store.enqueue(limited("k1", "k2", "k3"))
    await claim(store, demand=9)
    await store.set_limit("k", None, declared=True)
    assert names(await claim(store, demand=9)) == ["k2", "k3"]


async def test_what_is_given_limits_keeps_its_position_and_obeys_them_from_then_on(store):
    await one_at_a_time(store)
    await store.enqueue([job("a"), job("b"), job("c")])
    first, second, _ = (await claim(store, demand=9)).claims
    under = [Limited(e.lease, '{"k":1}', "key", "[[],0,0,0,true]") for e in (first, second)]
    assert await store.commit(under) == ["written"] * 2
    assert await store.commit(under) == ["already"] * 2
    stored = await store.get("a")
    assert (stored.status, stored.limits, stored.fairness_key) == ("pending", '{"k":1}', "key")
    assert (stored.trail, stored.retry_count, stored.snoozes) == ("[[],0,0,0,true]", 0, 0)
    claimed = (await claim(store, demand=9)).claims
    assert [(each.id, each.trail) for each in claimed] == [("a", "[[],0,0,0,true]")]
    await store.commit([done(claimed[0])])
    assert names(await claim(store, demand=9)) == ["b"]


# -- looking -------------------------------------------------------------------------------------


async def test_limits_are_shown_as_they_are(store, clock):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.set_limit("t:*", Limit(rate=2, per=10.0), declared=True)
    await store.enqueue([*limited("k1", "k2", "k3"), *limited("t1", "t2", "t3", limits="t:a")])
    await claim(store, demand=9)
    first, second, third = await store.limits(10)
    assert (first.name, first.running, first.waiting, first.room_at) == ("k", 1, 2, None)
    assert (second.name, second.stored.declared) == ("t:*", Limit(rate=2, per=10.0))
    assert (second.running, second.waiting) == (0, 0)
    assert (third.name, third.stored.in_force, third.in_force) == ("t:a", None, second.in_force)
    assert (third.running, third.waiting, third.used) == (2, 1, 2)
    assert third.room_at == clock.now + 10.0
    assert [each.name for each in await store.limits(2)] == ["k", "t:*"]


async def test_names_that_were_used_once_leave_nothing_behind(store, clock):
    await store.set_limit("t:*", Limit(concurrency=1, rate=5, per=10.0), declared=True)
    new = [each for n in range(20) for each in limited(f"j{n}", limits=f"t:{n}")]
    for claimed in await begin(store, *new):
        await store.commit([done(claimed)])
    assert len(await store.limits(100)) == 21
    clock.advance(20)
    await store.prune(3600.0, 100)
    assert [each.name for each in await store.limits(100)] == ["t:*"]


async def test_a_gathering_job_asks_for_its_limits_when_its_members_have_arrived(store):
    await one_at_a_time(store)
    await store.enqueue([*limited("gathering", awaits=1), job("member", gather="gathering")])
    [other] = await begin(store, *limited("other"))
    member = await start(store)
    await store.commit([done(member)])
    assert names(await claim(store, demand=9)) == []
    await store.commit([done(other)])
    assert names(await claim(store, demand=9)) == ["gathering"]
