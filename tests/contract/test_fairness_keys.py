"""Fairness keys: customers of one lane take turns, however many jobs each has waiting."""

from mulligan.core.limits import Limit
from mulligan.core.outcome import Returned
from mulligan.core.plan import ClaimPlan
from tests.contract.builders import (
    ANN,
    FRESH,
    RETRY,
    again,
    claim,
    done,
    group,
    in_turn,
    job,
    jobs,
    names,
)


def of(key, *ids, **fields):
    return [job(each, fairness_key=key, **fields) for each in ids]


async def weighted(store, demand, weights):
    """Claim from the fresh lane with these weights of keys."""
    plan = in_turn(demand, group(FRESH))
    for _ in range(2):
        epoch = (await store.facts()).epoch
        made = ClaimPlan(demand, plan.groups, plan.steps, epoch, {"default": weights})
        claimed = await store.claim(made, ANN)
        if not claimed.stale:
            return names(claimed)
    raise AssertionError("a plan of the newest epoch was refused")


async def test_who_floods_a_lane_delays_its_own_jobs(store):
    await store.enqueue(of("loud", *(f"l{n}" for n in range(6))))
    await store.enqueue([*of("quiet", "q0", "q1"), *of("calm", "c0")])
    assert names(await claim(store, demand=9)) == [
        *("l0", "q0", "c0", "l1", "q1", "l2", "l3", "l4", "l5")
    ]


async def test_one_by_one_and_all_at_once_are_the_same(store):
    await store.enqueue([*of("a", "a0", "a1", "a2"), *of("b", "b0", "b1")])
    seen = [names(await claim(store))[0] for _ in range(5)]
    assert seen == ["a0", "b0", "a1", "b1", "a2"]


async def test_jobs_without_a_key_share_one(store):
    await store.enqueue([*jobs("n0", "n1", "n2"), *of("a", "a0", "a1")])
    assert names(await claim(store, demand=9)) == ["n0", "a0", "n1", "a1", "n2"]


async def test_a_lane_without_keys_is_first_in_first_out(store):
    await store.enqueue(
        [job("a"), job("b", limits='{"k":1}'), job("c"), job("d", limits='{"k":1}')]
    )
    assert names(await claim(store, demand=9)) == ["a", "b", "c", "d"]


async def test_within_a_key_order_holds_whatever_limits_its_jobs_name(store):
    limits = [None, '{"k":1}', '{"l":1}', None, '{"k":1}']
    await store.enqueue([job(f"a{n}", fairness_key="a", limits=x) for n, x in enumerate(limits)])
    await store.enqueue(of("b", "b0"))
    assert names(await claim(store, demand=9)) == ["a0", "b0", "a1", "a2", "a3", "a4"]


async def test_weights_are_shares(store):
    await store.enqueue(of("light", *(f"l{n}" for n in range(6))))
    await store.enqueue(of("heavy", *(f"h{n}" for n in range(6))))
    seen = await weighted(store, 9, {"heavy": 2.0})
    assert sorted(seen) == ["h0", "h1", "h2", "h3", "h4", "h5", "l0", "l1", "l2"]


async def test_a_key_that_had_no_work_saved_nothing_up(store):
    await store.enqueue([*of("a", *(f"a{n}" for n in range(9))), *of("b", "b0")])
    assert names(await claim(store, demand=5)) == ["a0", "b0", "a1", "a2", "a3"]
    await store.enqueue(of("b", "b1", "b2", "b3"))
    assert names(await claim(store, demand=6)) == ["b1", "a4", "b2", "a5", "b3", "a6"]


async def test_a_key_that_just_had_its_turn_does_not_come_first_again(store):
    await store.enqueue([*of("a", "a0"), *of("b", "b0", "b1"), *of("c", "c0")])
    assert names(await claim(store, demand=1)) == ["a0"]
    await store.enqueue(of("a", "a1"))
    assert names(await claim(store, demand=9)) == ["b0", "c0", "b1", "a1"]


async def test_delayed_jobs_take_part_when_they_are_due(store, clock):
    await store.enqueue([*of("a", "a0", "a1", "a2"), *of("b", "b0", delay=5.0)])
    claimed = await claim(store, demand=2)
    assert names(claimed) == ["a0", "a1"]
    clock.advance(5)
    assert names(await claim(store, demand=9)) == ["b0", "a2"]


async def test_a_delayed_job_alone_says_when_it_is_due(store, clock):
    await store.enqueue(of("a", "a0", delay=5.0))
    claimed = await claim(store)
    assert (names(claimed), claimed.again_in) == ([], 5.0)
    clock.advance(5)
    assert names(await claim(store)) == ["a0"]


async def test_due_retries_take_turns_too(store, clock):
    await store.enqueue([*of("a", "a0", "a1", "a2"), *of("b", "b0")])
    claimed = (await claim(store, demand=9)).claims
    by_name = {each.id: each for each in claimed}
    await store.commit([again(by_name[name], delay=2.0) for name in ("a0", "a1", "a2", "b0")])
    clock.advance(2)
    assert names(await claim(store, RETRY, demand=9)) == ["a0", "b0", "a1", "a2"]


async def test_a_cancelled_job_costs_its_key_no_turn(store):
    await store.enqueue([*of("a", "a0", "a1", "a2"), *of("b", "b0", "b1")])
    await store.cancel(["a0"], "enough")
    assert names(await claim(store, demand=9)) == ["a1", "b0", "a2", "b1"]


async def test_what_is_returned_goes_before_the_others_of_its_key(store):
    await store.enqueue([*of("a", "a0", "a1"), *of("b", "b0", "b1")])
    first = (await claim(store)).claims[0]
    await store.commit([Returned(first.lease)])
    assert names(await claim(store, demand=9)) == ["b0", "a0", "b1", "a1"]


async def test_a_key_without_room_at_its_limit_holds_up_no_other(store):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.enqueue(of("a", "a0", "a1", "a2", limits='{"k":1}'))
    await store.enqueue([*of("b", "b0", "b1"), *of("a", "free")])
    claimed = (await claim(store, demand=9)).claims
    assert [each.id for each in claimed] == ["a0", "b0", "b1", "free"]
    await store.commit([done(claimed[0])])
    assert names(await claim(store, demand=9)) == ["a1"]


async def test_at_a_limit_customers_take_turns(store):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.enqueue(of("a", "a0", "a1", "a2", limits='{"k":1}'))
    await store.enqueue([*of("b", "b0", limits='{"k":1}'), *of("c", "c0", "c1", limits='{"k":1}')])
    seen = []
    while claimed := (await claim(store, demand=9)).claims:
        seen += [each.id for each in claimed]
        await store.commit([done(each) for each in claimed])
    assert seen == ["a0", "b0", "c0", "a1", "c1", "a2"]


async def test_keys_are_shown_by_what_waits(store):
    await store.enqueue([*of("a", "a0", "a1", "a2"), *of("b", "b0"), job("n0")])
    await claim(store)
    shown = [(each.lane, each.key, each.waiting) for each in await store.keys("default", 10)]
    assert shown == [(FRESH, "a", 2), (FRESH, "b", 1)]
    assert len(await store.keys("default", 1)) == 1
    assert await store.keys("other", 10) == []


async def test_keys_leave_nothing_behind(store):
    await store.enqueue([each for n in range(20) for each in of(f"key {n}", f"j{n}")])
    for claimed in (await claim(store, demand=50)).claims:
        await store.commit([done(claimed)])
    assert await store.keys("default", 100) == []
