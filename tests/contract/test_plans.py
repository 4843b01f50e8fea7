"""How a plan is walked: tiers, sources, steps and shares, and what is said about the rest."""

import pytest

from mulligan.core.fairness import Bound, Carry, plan_claim
from mulligan.core.lane import Lane, Priority
from mulligan.core.plan import ClaimPlan, Take
from tests.contract.builders import (
    BOB,
    FRESH,
    RETRY,
    URGENT,
    again,
    begin,
    claim,
    group,
    in_turn,
    job,
    jobs,
    names,
    one_tier,
    source,
    walk,
)


async def test_a_plan_without_groups_takes_nothing(store):
    await store.enqueue(jobs("a"))
    claimed = await walk(store, in_turn(3))
    assert (claimed.claims, claimed.left, claimed.again_in) == ([], (), None)


async def test_only_the_lanes_of_the_plan_are_looked_at(store):
    await store.enqueue([job("a", region="EU"), job("b", queue="mail"), job("c", priority=2)])
    claimed = await claim(store, FRESH, demand=5)
    assert (names(claimed), claimed.left, claimed.again_in) == ([], (False,), None)


async def test_tiers_are_emptied_in_order_even_if_a_later_one_fell_due_first(store, clock):
    await store.enqueue(jobs("own"))
    clock.advance(1)
    await store.enqueue([job("anywhere", region="*")])
    plan = in_turn(2, group(Lane("default", "*", Priority.NORMAL), FRESH))
    assert names(await walk(store, plan)) == ["anywhere", "own"]


async def test_the_sources_of_one_tier_are_merged_by_due_and_then_by_sequence(store, clock):
    eu, us = Lane("default", "EU", 0), Lane("default", "US", 0)
    await store.enqueue([job("eu-1", region="EU"), job("us-1", region="US")])
    await store.enqueue([job("us-2", region="US"), job("eu-2", region="EU")])
    clock.advance(1)
    await store.enqueue([job("us-3", region="US"), job("eu-3", region="EU")])
    claimed = await claim(store, us, eu, demand=6)
    assert names(claimed) == ["eu-1", "us-1", "us-2", "eu-2", "us-3", "eu-3"]


async def test_a_source_with_waited_gives_only_jobs_due_for_that_long(store, clock):
    away = Lane("default", "*-EU", Priority.RETRY)
    [first] = await begin(store, job("a"))
    await store.commit([again(first, delay=1.0, lane=away)])
    patient = source(away, waited=2.0)
    assert (await claim(store, patient)).again_in == 3.0
    clock.advance(1)
    claimed = await claim(store, patient)
    assert (names(claimed), claimed.left, claimed.again_in) == ([], (False,), 2.0)
    clock.advance(2)
    assert names(await claim(store, patient)) == ["a"]


async def test_one_may_take_at_once_what_another_must_leave_for_a_while(store):
    away = Lane("default", "*-EU", Priority.RETRY)
    [first] = await begin(store, job("a"))
    await store.commit([again(first, lane=away)])
    assert names(await claim(store, source(away, waited=2.0))) == []
    assert names(await claim(store, source(away), worker=BOB)) == ["a"]


async def test_waiting_longer_does_not_change_a_jobs_place_in_a_tier(store, clock):
    slow, quick = Lane("default", "*-EU", 1), RETRY
    first, second = await begin(store, *jobs("a", "b"))
    await store.commit([again(first, lane=slow)])
    clock.advance(1)
    await store.commit([again(second, lane=quick)])
    clock.advance(5)
    assert names(await claim(store, quick, source(slow, waited=2.0), demand=2)) == ["a", "b"]


async def test_a_step_takes_until_the_claim_has_so_many_and_a_later_one_goes_on_from_there(store):
    taken = await begin(store, *jobs("r1", "r2", "r3"))
    await store.commit([again(each) for each in taken])
    await store.enqueue(jobs("f1", "f2", "f3"))
    retries, fresh = group(RETRY), group(FRESH)
    plan = in_turn(5, retries, fresh, until=(1, 3))
    assert names(await walk(store, plan)) == ["r1", "f1", "f2"]
    assert names(await walk(store, in_turn(5, retries, fresh))) == ["r2", "r3", "f3"]


SHARED = {
    "a quarter of four": (4, 250_000, 0, ["r1", "f1", "f2", "f3"]),
    "nothing of one": (1, 250_000, 0, ["f1"]),
    "all of one that is owed": (1, 250_000, 999_999, ["r1"]),
    "half of three": (3, 500_000, 0, ["r1", "f1", "f2"]),
    "half of three and what is owed": (3, 500_000, 500_000, ["r1", "r2", "f1"]),
}


@pytest.mark.parametrize(("demand", "share", "carry", "expected"), SHARED.values(), ids=SHARED)
async def test_a_step_with_a_share_takes_no_more_than_that(store, demand, share, carry, expected):
    taken = await begin(store, *jobs("r1", "r2", "r3"))
    await store.commit([again(each) for each in taken])
    await store.enqueue(jobs("f1", "f2", "f3", "f4"))
    steps = (Take(0, demand, share, carry, (0, 1)), Take(1, demand), Take(0, demand))
    plan = ClaimPlan(demand, (group(RETRY), group(FRESH)), steps)
    assert names(await walk(store, plan)) == expected


async def test_what_one_side_leaves_of_its_share_the_other_takes(store):
    taken = await begin(store, *jobs("r1", "r2", "r3"))
    await store.commit([again(each) for each in taken])
    await store.enqueue(jobs("f1"))
    steps = (Take(0, 4, 250_000, 0, (0, 1)), Take(1, 4), Take(0, 4))
    plan = ClaimPlan(4, (group(RETRY), group(FRESH)), steps)
    assert names(await walk(store, plan)) == ["r1", "f1", "r2", "r3"]


async def test_a_share_counts_what_its_groups_had_in_earlier_steps(store):
    await store.enqueue(jobs("f1", "f2", "f3", "f4", "f5"))
    await store.enqueue(jobs("u1", "u2", priority=2))
    steps = (Take(1, 3), Take(0, 4, 500_000, 0, (0, 1)), Take(1, 5))
    plan = ClaimPlan(5, (group(URGENT), group(FRESH)), steps)
    assert names(await walk(store, plan)) == ["f1", "f2", "f3", "u1", "f4"]


async def test_the_demand_ends_the_walk_before_the_last_step(store):
    await store.enqueue([*jobs("f1", "f2"), *jobs("u1", "u2", priority=2)])
    claimed = await walk(store, in_turn(3, group(URGENT), group(FRESH)))
    assert names(claimed) == ["u1", "u2", "f1"]
    assert claimed.left == (False, True)


async def test_a_limit_is_over_all_tiers_and_sources_of_its_group(store):
    await store.enqueue([*jobs("f1", "f2"), *jobs("g1", "g2", region="*")])
    plan = in_turn(4, group(Lane("default", "*", 0), FRESH), until=(3,))
    assert names(await walk(store, plan)) == ["g1", "g2", "f1"]


async def test_left_says_for_each_group_whether_a_job_could_still_start(store):
    await store.enqueue([job("now"), job("later", queue="mail", delay=5.0)])
    mail, empty = Lane("mail", "default", 0), Lane("nothing", "default", 0)
    claimed = await walk(store, in_turn(0, group(FRESH), group(mail), group(empty)))
    assert claimed.left == (True, False, False)


async def test_again_in_is_not_told_when_the_demand_was_met(store):
    await store.enqueue([job("a"), job("b", delay=5.0)])
    assert (await claim(store, demand=1)).again_in is None


async def test_again_in_is_the_earliest_time_at_which_the_plan_could_yield(store, clock):
    await store.enqueue([job("a", delay=7.0), job("b", queue="mail", delay=5.5)])
    mail = Lane("mail", "default", 0)
    assert (await claim(store, FRESH, mail)).again_in == 5.5
    clock.advance(5)
    assert (await claim(store, FRESH, mail)).again_in == 0.5
    assert (await claim(store, FRESH)).again_in == 2.0
    assert (await claim(store, source(FRESH, waited=1.0), source(mail, waited=9.0))).again_in == 3.0


async def test_again_in_is_nothing_when_work_waits_beyond_a_limit(store):
    await store.enqueue(jobs("a", "b"))
    claimed = await walk(store, in_turn(5, group(FRESH), until=(1,)))
    assert (names(claimed), claimed.left, claimed.again_in) == (["a"], (True,), 0.0)


async def test_after_exactly_again_in_the_plan_yields(store, clock):
    for delay in (0.1, 0.3, 0.7, 1 / 3, 2.2, 1e-6):
        clock.advance(0.123457)
        await store.enqueue([job(f"after {delay}", delay=delay)])
        patient = source(FRESH, waited=0.2)
        wait = (await claim(store, patient)).again_in
        assert wait == pytest.approx(delay + 0.2, abs=0.001)
        clock.advance(wait)
        assert names(await claim(store, patient)) == [f"after {delay}"]


async def test_a_worker_of_several_queues_takes_from_each(store):
    mail = Lane("mail", "default", 0)
    await store.enqueue([*jobs("a", "b", "c"), *jobs("m", "n", queue="mail")])
    plan = in_turn(4, group(FRESH), group(mail), until=(2, 4))
    assert names(await walk(store, plan)) == ["a", "b", "m", "n"]


async def test_merging_keeps_the_order_over_many_claims_of_one(store, clock):
    lanes = [Lane("default", region, 0) for region in ("EU", "US", "ASIA")]
    expected = []
    for n in range(30):
        await store.enqueue([job(f"j{n}", region=lanes[n * 7 % 3].scope)])
        expected.append(f"j{n}")
        clock.advance(n % 2)
    taken = [names(await walk(store, in_turn(1, group(one_tier(*lanes)))))[0] for _ in range(30)]
    assert taken == expected


async def test_of_bounded_queues_a_claim_takes_no_more_than_its_bound(store):
    await store.enqueue([job(f"{queue}{n}", queue=queue) for n in range(5) for queue in "ab"])
    facts = (await store.beat(BOB, [])).facts
    served = [("a", Carry()), ("b", Carry())]
    plan = plan_claim(8, "default", served, facts, bound=Bound(frozenset("a"), 2))
    claims = (await store.claim(plan, BOB)).claims
    assert sorted(each.queue for each in claims) == ["a"] * 2 + ["b"] * 5
