"""Concurrency keys: jobs that may not run beside each other, whichever lane they stand in."""

from mulligan.core.lane import Lane
from mulligan.core.outcome import Keyed, Returned
from tests.contract.making import (
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
    names,
    start,
    used,
)


def keyed(*names, key="k", limit=1, **fields):
    return [job(n, concurrency_key=key, concurrency_limit=limit, **fields) for n in names]


async def test_one_at_a_time_and_the_others_are_set_aside_without_holding_up_the_lane(store):
    await store.enqueue([*keyed("k1", "k2", "k3"), job("free")])
    assert names(await claim(store, demand=9)) == ["k1", "free"]
    stored = await store.get("k2")
    assert (stored.status, stored.held, used(stored)) == ("pending", True, 0)
    assert (stored.concurrency_key, stored.concurrency_limit) == ("k", 1)
    assert not (await store.get("k1")).held


async def test_a_held_job_is_not_claimable_work(store):
    await store.enqueue(keyed("k1", "k2"))
    claimed = await claim(store, demand=2)
    assert (names(claimed), claimed.left, claimed.again_in) == (["k1"], (False,), None)


async def test_a_held_job_keeps_its_place_in_the_lane_for_those_who_ask(store):
    await store.enqueue([*keyed("k1", "k2", "k3"), job("free")])
    await start(store)
    assert names(await claim(store, demand=0)) == []
    assert [await store.ahead(each) for each in ("k2", "k3", "free")] == [0, 1, 2]
    assert names(await claim(store, demand=9)) == ["free"]
    await store.enqueue([job("last")])
    assert [await store.ahead(each) for each in ("k2", "k3", "last")] == [0, 1, 2]
    assert await store.depth(FRESH, 9) == 1


async def test_the_end_of_one_that_awaits_others_lets_nobody_go(store):
    gathering = job("gathering", awaits=1, concurrency_key="k")
    await store.enqueue([*keyed("k1", "k2", "k3"), gathering])
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([done(first)])
    await store.cancel(["gathering"], "enough")
    assert [(await store.get(each)).held for each in ("k2", "k3")] == [False, True]


async def test_what_a_claim_sets_aside_stays_so_when_it_ends_one_that_awaits_others(store, clock):
    gathering = job("gathering", awaits=1, concurrency_key="k")
    member = job("member", gather="gathering", expires=1.0)
    await store.enqueue([gathering, member, *keyed("k1", "k2"), job("free")])
    clock.advance(1)
    assert names(await claim(store, demand=2)) == ["k1", "free"]
    assert (await store.get("gathering")).status == "cancelled"
    assert (await store.get("k2")).held


async def test_the_end_of_one_lets_the_next_go_in_its_old_place(store, clock):
    await store.enqueue(keyed("k1", "k2", "k3"))
    first = (await claim(store, demand=9)).claims[0]
    clock.advance(5)
    await store.enqueue([job("younger")])
    await store.commit([done(first)])
    assert not (await store.get("k2")).held
    claimed = await claim(store, demand=9)
    assert names(claimed) == ["k2", "younger"]
    assert claimed.claims[0].due == first.due


async def test_a_key_with_a_limit_lets_that_many_run_across_clients(store, another):
    await store.enqueue(keyed("k1", "k2", "k3", "k4", limit=2))
    first = await start(store)
    assert names(await claim(another, demand=9, worker=BOB)) == ["k2"]
    assert names(await claim(store, demand=9)) == []
    await another.commit([done(first)])
    assert names(await claim(store, demand=9)) == ["k3"]


async def test_a_key_is_one_in_all_queues_regions_and_lanes(store):
    mail, eu = Lane("mail", "default", 0), Lane("default", "EU", 0)
    await store.enqueue(
        [*keyed("a"), *keyed("b", queue="mail"), *keyed("c", region="EU"), *keyed("d", priority=2)]
    )
    lanes = (FRESH, mail, eu, Lane("default", "default", 2))
    seen = []
    for _ in range(4):
        claimed = await claim(store, *lanes, demand=9)
        assert len(claimed.claims) == 1
        seen += names(claimed)
        await store.commit([done(each) for each in claimed.claims])
    assert sorted(seen) == ["a", "b", "c", "d"]


async def test_different_keys_do_not_meet(store):
    await store.enqueue([*keyed("a", key="x"), *keyed("b", key="y"), *keyed("c", key="x")])
    assert names(await claim(store, demand=9)) == ["a", "b"]


async def test_each_job_obeys_its_own_limit(store):
    await store.enqueue([*keyed("w1", "w2", limit=3), *keyed("narrow"), *keyed("w3", limit=3)])
    claimed = await claim(store, demand=9)
    assert names(claimed) == ["w1", "w2", "w3"]
    for each in claimed.claims[:2]:
        await store.commit([done(each)])
        assert names(await claim(store, demand=9)) == []
    await store.commit([done(claimed.claims[2])])
    assert names(await claim(store, demand=9)) == ["narrow"]


async def test_a_wide_job_is_let_go_although_a_narrow_one_waits_before_it(store):
    await store.enqueue([*keyed("a", "b", limit=2), *keyed("narrow"), *keyed("wide", limit=2)])
    claimed = await claim(store, demand=9)
    assert names(claimed) == ["a", "b"]
    await store.commit([done(claimed.claims[0])])
    assert names(await claim(store, demand=9)) == ["wide"]


async def test_cancelling_the_running_one_lets_the_next_go(store):
    await store.enqueue(keyed("k1", "k2"))
    await claim(store, demand=9)
    await store.cancel(["k1"], "enough")
    assert names(await claim(store, demand=9)) == ["k2"]


async def test_cancelling_the_one_that_was_let_go_lets_the_next_go(store):
    await store.enqueue(keyed("k1", "k2", "k3"))
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([done(first)])
    await store.cancel(["k2"], "enough")
    assert names(await claim(store, demand=9)) == ["k3"]


async def test_those_cancelled_together_let_the_next_go_as_if_one_came_after_the_other(store):
    await store.enqueue(keyed("k1", "k2", "k3", "k4"))
    await claim(store, demand=9)
    await store.cancel(["k1", "k2"], "enough")
    assert [(await store.get(each)).held for each in ("k3", "k4")] == [False, True]


async def test_a_held_job_may_be_cancelled(store):
    await store.enqueue(keyed("k1", "k2", "k3"))
    first = (await claim(store, demand=9)).claims[0]
    assert await store.cancel(["k2"], "enough") == [True]
    stored = await store.get("k2")
    assert (stored.status, stored.held) == ("cancelled", False)
    await store.commit([done(first)])
    assert names(await claim(store, demand=9)) == ["k3"]


async def test_the_expiry_of_the_one_that_was_let_go_lets_the_next_go(store, clock):
    await store.enqueue([*keyed("k1"), *keyed("late", expires=10.0), *keyed("k3")])
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([done(first)])
    clock.advance(20)
    assert names(await claim(store, demand=9)) == ["k3"]
    assert (await store.get("late")).status == "cancelled"


async def test_one_claim_ends_what_expired_and_what_that_let_go_and_had_expired_too(store, clock):
    await store.enqueue([*keyed("k1"), *keyed("late", "later", expires=10.0), *keyed("k4")])
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([done(first)])
    clock.advance(20)
    assert names(await claim(store, demand=1)) == ["k4"]
    assert [(await store.get(each)).status for each in ("late", "later")] == ["cancelled"] * 2


async def test_what_an_expiry_lets_go_is_set_aside_again_where_the_claim_has_no_room(store, clock):
    eu = Lane("default", "EU", 0)
    await store.enqueue([*keyed("k1"), *keyed("late", expires=10.0), *keyed("k3")])
    await store.enqueue([*keyed("e1", "e2", region="EU"), job("free", delay=15.0)])
    first = (await claim(store, FRESH, eu, demand=9)).claims[0]
    await store.commit([done(first)])
    clock.advance(20)
    assert names(await claim(store, FRESH, eu, demand=2)) == ["k3", "free"]
    assert [(await store.get(each)).held for each in ("e1", "e2")] == [True, True]


async def test_what_expiries_let_go_stands_behind_all_that_came_before_it(store, clock):
    await store.enqueue([*keyed("a1", key="a"), *keyed("b1", key="b")])
    await store.enqueue([job(f"late {key}", expires=10.0, concurrency_key=key) for key in "ab"])
    await store.enqueue([job("before"), *keyed("a2", key="a"), *keyed("b2", key="b")])
    first, second, before = (await claim(store, demand=9)).claims
    await store.commit([Returned(before.lease), done(first), done(second)])
    clock.advance(20)
    assert names(await claim(store, demand=1)) == ["before"]
    assert names(await claim(store, demand=9)) == ["a2", "b2"]


async def test_a_held_job_expires_like_any_other(store, clock):
    await store.enqueue([*keyed("k1"), *keyed("late", expires=10.0)])
    await claim(store, demand=9)
    clock.advance(10)
    await store.promote(100)
    stored = await store.get("late")
    assert (stored.status, stored.held) == ("cancelled", False)
    assert stored.cancel_reason == "expired before it could start"


async def test_those_that_expire_together_let_the_next_go_as_if_one_came_after_the_other(
    store, clock
):
    late = keyed("late", "later", expires=10.0)
    await store.enqueue([*keyed("k1"), *late, *keyed("k4", "k5")])
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([done(first)])
    clock.advance(10)
    await store.promote(100)
    assert [(await store.get(each)).held for each in ("k4", "k5")] == [False, True]


async def test_a_retry_gives_up_its_key_while_it_waits_and_asks_for_it_again(store, clock):
    await store.enqueue(keyed("k1", "k2"))
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([again(first, delay=2.0)])
    second = await start(store)
    assert second.id == "k2"
    clock.advance(2)
    assert names(await claim(store)) == []
    assert (await store.get("k1")).held
    await store.commit([done(second)])
    assert names(await claim(store)) == ["k1"]


async def test_returned_gives_up_the_key_and_keeps_its_place_before_the_held_ones(store):
    await store.enqueue(keyed("k1", "k2"))
    first = (await claim(store, demand=9)).claims[0]
    await store.commit([Returned(first.lease)])
    assert names(await claim(store, demand=9)) == ["k1"]


async def test_a_reclaimed_job_gives_up_its_key(store, clock):
    await store.enqueue(keyed("k1", "k2"))
    await claim(store, demand=9)
    clock.advance(ANN.lease)
    await store.reclaim(10, REAPER)
    assert names(await claim(store, demand=9, worker=BOB)) == ["k2"]


async def test_one_is_let_go_in_every_lane_and_only_one_of_them_starts(store):
    eu = Lane("default", "EU", 0)
    await store.enqueue([*keyed("k1"), *keyed("k2", "k3"), *keyed("e2", "e3", region="EU")])
    first = (await claim(store, FRESH, eu, demand=9)).claims[0]
    await store.commit([done(first)])
    held = {name: (await store.get(name)).held for name in ("k2", "k3", "e2", "e3")}
    assert held == {"k2": False, "k3": True, "e2": False, "e3": True}
    second = await start(store, eu, worker=BOB)
    assert second.id == "e2"
    assert names(await claim(store, FRESH, demand=9)) == []
    await store.commit([done(second)])
    assert names(await claim(store, FRESH, demand=9)) == ["k2"]


async def test_many_jobs_of_one_key_all_run_in_order_and_never_together(store):
    many = [f"k{n:02}" for n in range(25)]
    await store.enqueue(keyed(*many))
    seen = []
    while claimed := (await claim(store, demand=9)).claims:
        assert len(claimed) == 1
        seen += [each.id for each in claimed]
        await store.commit([done(claimed[0])])
    assert seen == many


async def test_a_dead_letter_gives_up_its_key_and_its_replay_asks_for_it_again(store):
    [first] = await begin(store, *keyed("k1"))
    await store.commit([dead(first)])
    [second] = await begin(store, *keyed("k2"))
    await store.replay(["k1"])
    assert names(await claim(store, demand=9)) == []
    await store.commit([again(second)])
    assert names(await claim(store, FRESH, demand=9)) == ["k1"]
    assert names(await claim(store, RETRY, demand=9)) == []


async def test_what_is_put_under_a_key_keeps_its_place_and_runs_one_at_a_time_from_then_on(store):
    await store.enqueue([job("a"), job("b"), job("c", delay=0.0)])
    first, second, _ = (await claim(store, demand=9)).claims
    under = [Keyed(each.lease, "k", 1, "[[],0,0,true]") for each in (first, second)]
    assert await store.commit(under) == ["written"] * 2
    assert await store.commit(under) == ["already"] * 2
    stored = await store.get("a")
    assert (stored.status, stored.concurrency_key, stored.concurrency_limit) == ("pending", "k", 1)
    assert (stored.trail, stored.retry_count, stored.snoozes) == ("[[],0,0,true]", 0, 0)
    await store.enqueue([job("last")])
    again_claimed = (await claim(store, demand=9)).claims
    assert [(each.id, each.trail) for each in again_claimed] == [
        ("a", "[[],0,0,true]"),
        ("last", ""),
    ]
    assert (await store.get("b")).held
    await store.commit([done(again_claimed[0])])
    assert names(await claim(store, demand=9)) == ["b"]


async def test_what_is_put_under_a_key_counts_beside_those_that_had_it(store):
    await store.enqueue([job("a"), *keyed("k1", limit=2), *keyed("k2", limit=2)])
    claimed = (await claim(store, demand=9)).claims
    assert [each.id for each in claimed] == ["a", "k1", "k2"]
    await store.commit([Keyed(claimed[0].lease, "k", 2)])
    assert names(await claim(store, demand=9)) == []
    await store.commit([done(claimed[1])])
    assert names(await claim(store, demand=9)) == ["a"]


async def test_a_stale_lease_puts_nothing_under_a_key(store):
    [first] = await begin(store, job("a"))
    await store.commit([done(first)])
    await store.enqueue([job("b")])
    second = await start(store)
    await store.cancel(["b"], "enough")
    outcomes = [Keyed(first.lease, "k", 1), Keyed(second.lease, "k", 1)]
    assert "written" not in await store.commit(outcomes)
    assert [(await store.get(each)).concurrency_key for each in ("a", "b")] == [None, None]
