"""Limits: how many may run at a time, and how many may start in a window, store-wide."""

import pytest
from msgspec.structs import replace

from mulligan.core.budget import Budget
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped, RetryFirst
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit as NamedLimit
from mulligan.core.outcome import Cancelled, Later, Returned
from mulligan.core.plan import Cap, Rate
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
    group,
    in_turn,
    job,
    jobs,
    names,
    one_tier,
    run_by_policy,
    source,
    start,
    walk,
)

TWO = source(FRESH, Cap("two", 2))
ONE = source(FRESH, Cap("one", 1))


async def test_no_more_run_than_the_gate_allows(store):
    await store.enqueue(jobs("a", "b", "c"))
    claimed = await claim(store, TWO, demand=5)
    assert names(claimed) == ["a", "b"]
    assert (claimed.left, claimed.again_in) == ((False,), None)
    assert names(await claim(store, TWO, demand=5)) == []


async def test_a_gate_holds_for_all_clients_together(store, another):
    await store.enqueue(jobs("a", "b", "c"))
    assert names(await claim(store, TWO)) == ["a"]
    assert names(await claim(another, TWO, demand=5, worker=BOB)) == ["b"]
    assert names(await claim(store, TWO, demand=5)) == []


OUTCOMES = {
    "done": done,
    "again": lambda first: again(first, delay=100),
    "later": lambda first: Later(first.lease, 100.0),
    "dead": dead,
    "returned": lambda first: Returned(first.lease),
    "cancelled": lambda first: Cancelled(first.lease, "enough"),
}


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
async def test_every_commit_frees_the_permit(store, outcome):
    await store.enqueue(jobs("a", "b"))
    first = await start(store, ONE)
    assert names(await claim(store, ONE)) == []
    await store.commit([outcome(first)])
    assert len(names(await claim(store, ONE))) == 1
    assert names(await claim(store, ONE)) == []


async def test_a_stale_or_repeated_commit_frees_nothing(store, clock):
    await store.enqueue(jobs("a", "b", "c"))
    first = await start(store, TWO)
    await store.commit([Returned(first.lease)])
    assert names(await claim(store, TWO, demand=5)) == ["a", "b"]
    assert await store.commit([Returned(first.lease), Returned(first.lease)]) == ["already"] * 2
    assert names(await claim(store, TWO)) == []


async def test_a_cancelled_job_frees_its_permit(store):
    await store.enqueue(jobs("a", "b"))
    await start(store, ONE)
    await store.cancel(["a"], "enough")
    assert names(await claim(store, ONE)) == ["b"]


async def test_a_reclaimed_job_frees_its_permit(store, clock):
    await store.enqueue(jobs("a", "b"))
    await start(store, ONE)
    clock.advance(ANN.lease)
    assert names(await claim(store, ONE, worker=BOB)) == []
    [reclaimed] = await store.reclaim(10, REAPER)
    assert names(await claim(store, ONE, worker=BOB)) == ["b"]
    await store.commit([again(reclaimed)])
    assert names(await claim(store, ONE, worker=BOB)) == []


async def test_after_a_reclaimed_job_is_committed_its_permit_is_free_once(store, clock):
    await store.enqueue(jobs("a", "b", "c"))
    await start(store, ONE)
    clock.advance(ANN.lease)
    [reclaimed] = await store.reclaim(10, REAPER)
    await store.commit([dead(reclaimed)])
    assert names(await claim(store, ONE, demand=5, worker=BOB)) == ["b"]


async def test_one_key_is_one_gate_whatever_lanes_it_stands_before(store):
    mail = Lane("mail", "default", 0)
    await store.enqueue([job("a"), job("m", queue="mail")])
    limit = Cap("shared", 1)
    assert names(await claim(store, source(FRESH, limit), source(mail, limit), demand=5)) == ["a"]
    assert names(await claim(store, source(mail, limit))) == []


async def test_a_closed_gate_does_not_hold_back_the_sources_beside_it(store):
    taken = await begin(store, *jobs("r1", "r2"))
    await store.commit([again(each) for each in taken])
    await store.enqueue(jobs("f1", "f2"))
    limited = source(RETRY, Cap("cap", 1))
    claimed = await claim(store, limited, FRESH, demand=4)
    assert names(claimed) == ["r1", "f1", "f2"]
    assert (claimed.left, claimed.again_in) == ((False,), None)


async def test_a_closed_gate_does_not_hold_back_the_next_tier(store):
    taken = await begin(store, *jobs("r1", "r2"))
    await store.commit([again(each) for each in taken])
    await store.enqueue(jobs("f1"))
    plan = in_turn(3, group(source(RETRY, Cap("cap", 1)), FRESH))
    assert names(await walk(store, plan)) == ["r1", "f1"]


async def test_every_gate_of_a_source_must_be_open_and_all_are_charged(store):
    both = source(FRESH, Cap("wide", 5), Cap("narrow", 1))
    await store.enqueue(jobs("a", "b", "c"))
    first = await start(store, both)
    assert names(await claim(store, both)) == []
    wide = source(FRESH, Cap("wide", 2))
    assert names(await claim(store, wide, demand=5)) == ["b"]
    await store.commit([done(first)])
    assert names(await claim(store, both, demand=5)) == ["c"]


async def test_a_lowered_limit_closes_the_gate_until_enough_have_ended(store):
    await store.enqueue(jobs("a", "b", "c"))
    claimed = await claim(store, TWO, demand=2)
    narrow = source(FRESH, Cap("two", 1))
    await store.commit([done(claimed.claims[0])])
    assert names(await claim(store, narrow)) == []
    await store.commit([done(claimed.claims[1])])
    assert names(await claim(store, narrow)) == ["c"]


async def test_a_source_without_the_gate_neither_charges_nor_asks_it(store):
    await store.enqueue(jobs("a", "b", "c"))
    await claim(store, FRESH)
    assert names(await claim(store, ONE)) == ["b"]
    assert names(await claim(store, FRESH)) == ["c"]


async def test_no_window_sees_more_starts_than_the_rate_allows(store, clock):
    rate = source(FRESH, Rate("rate", 2, 10.0))
    await store.enqueue(jobs("a", "b", "c", "d", "e"))
    assert names(await claim(store, rate)) == ["a"]
    clock.advance(4)
    claimed = await claim(store, rate, demand=5)
    assert (names(claimed), claimed.left, claimed.again_in) == (["b"], (False,), 6.0)
    clock.advance(5.875)
    assert (await claim(store, rate, demand=5)).again_in == 0.125
    clock.advance(0.125)
    claimed = await claim(store, rate, demand=5)
    assert (names(claimed), claimed.again_in) == (["c"], 4.0)
    clock.advance(4)
    assert names(await claim(store, rate, demand=5)) == ["d"]
    clock.advance(6)
    assert names(await claim(store, rate, demand=5)) == ["e"]


async def test_a_rate_counts_starts_and_not_ends(store, clock):
    rate = source(FRESH, Rate("rate", 1, 10.0))
    await store.enqueue(jobs("a", "b"))
    await store.commit([done(await start(store, rate))])
    assert names(await claim(store, rate)) == []
    clock.advance(10)
    assert names(await claim(store, rate)) == ["b"]


async def test_a_rate_is_not_given_back_by_a_cancel_or_a_return(store):
    rate = source(FRESH, Rate("rate", 1, 10.0))
    await store.enqueue(jobs("a", "b"))
    first = await start(store, rate)
    await store.commit([Returned(first.lease)])
    await store.cancel(["a"], "enough")
    assert names(await claim(store, rate)) == []


async def test_a_rate_holds_for_all_clients_together(store, another, clock):
    rate = source(FRESH, Rate("rate", 3, 10.0))
    await store.enqueue(jobs("a", "b", "c", "d"))
    assert names(await claim(store, rate, demand=2)) == ["a", "b"]
    assert names(await claim(another, rate, demand=2, worker=BOB)) == ["c"]
    assert (await claim(store, rate)).again_in == 10.0


async def test_a_delayed_job_behind_a_closed_rate_waits_for_the_later_of_both(store, clock):
    rate = source(FRESH, Rate("rate", 1, 10.0))
    await store.enqueue([job("a"), job("b", delay=3.0)])
    await start(store, rate)
    assert (await claim(store, rate)).again_in == 10.0
    await store.enqueue([job("c", region="EU", delay=12.0)])
    eu = replace(rate, lane=Lane("default", "EU", 0))
    assert (await claim(store, eu)).again_in == 12.0


async def test_a_rate_of_a_share_grows_with_the_starts_it_is_a_share_of(store, clock):
    counted = source(FRESH, Rate("fresh", None, 60.0))
    shared = source(RETRY, Rate("retries", 2, 60.0, 0.5, "fresh"))
    taken = await begin(store, *(job(f"r{n}", region="EU") for n in range(6)))
    await store.commit([again(each) for each in taken])
    assert names(await claim(store, shared, demand=9)) == ["r0", "r1"]
    await store.enqueue(jobs(*(f"f{n}" for n in range(7))))
    assert len(names(await claim(store, counted, demand=9))) == 7
    claimed = await claim(store, shared, demand=9)
    assert names(claimed) == ["r2"]
    assert (claimed.left, claimed.again_in) == ((False,), 60.0)
    clock.advance(60)
    assert names(await claim(store, shared, demand=9)) == ["r3", "r4"]


async def test_the_starts_of_a_claim_count_once_in_what_it_says_of_the_rest(store):
    counted = source(FRESH, Rate("fresh", None, 60.0))
    shared = source(RETRY, Rate("retries", 1, 60.0, 0.5, "fresh"))
    taken = await begin(store, *jobs("r1", "r2"))
    await store.commit([again(each) for each in taken])
    assert names(await claim(store, shared)) == ["r1"]
    await store.enqueue(jobs("f1", "f2"))
    claimed = await walk(store, in_turn(2, group(counted), group(shared)))
    assert (names(claimed), claimed.left) == (["f1", "f2"], (False, False))


async def test_room_that_the_starts_of_a_claim_make_is_for_the_next_claim(store):
    counted = source(FRESH, Rate("fresh", None, 60.0))
    shared = source(RETRY, Rate("retries", 1, 60.0, 0.5, "fresh"))
    taken = await begin(store, *jobs("r1", "r2"))
    await store.commit([again(each) for each in taken])
    await store.enqueue(jobs("f1", "f2", "f3", "f4"))
    claimed = await walk(store, in_turn(9, group(shared), group(counted)))
    assert names(claimed) == ["r1", "f1", "f2", "f3", "f4"]
    assert (claimed.left, claimed.again_in) == ((True, False), 0.0)
    assert names(await walk(store, in_turn(9, group(shared), group(counted)))) == ["r2"]


async def test_a_rate_without_a_limit_only_counts(store):
    counted = source(FRESH, Rate("fresh", None, 60.0))
    await store.enqueue(jobs(*(f"f{n}" for n in range(50))))
    claimed = await claim(store, counted, demand=50)
    assert (len(claimed.claims), claimed.left) == (50, (False,))


async def test_a_capped_queue_runs_no_more_retries_than_its_cap(store):
    taken = await begin(store, *jobs("r1", "r2", "r3"))
    await store.commit([again(each) for each in taken])
    await store.enqueue(jobs("f1", "f2"))
    claimed = await run_by_policy(store, 5, settings=QueueSettings(Capped(1)))
    assert names(claimed) == ["r1", "f1", "f2"]
    await store.commit([done(claimed.claims[0])])
    assert names(await run_by_policy(store, 5)) == ["r2"]


async def test_the_ratio_budget_always_allows_ten_a_minute(store):
    taken = await begin(store, *jobs(*(f"r{n:02}" for n in range(12))))
    await store.commit([again(each) for each in taken])
    settings = QueueSettings(RetryFirst(), Budget(ratio=0.2))
    claimed = await run_by_policy(store, 20, settings=settings)
    assert names(claimed) == [f"r{n:02}" for n in range(10)]


async def test_a_retry_of_an_urgent_job_counts_against_the_cap(store):
    lane = Lane("default", "*", 3)
    taken = await begin(store, *jobs("u1", "u2", priority=2))
    await store.commit([again(each, lane=lane) for each in taken])
    await store.enqueue(jobs("u3", priority=2))
    claimed = await run_by_policy(store, 5, settings=QueueSettings(Capped(1)))
    assert sorted(names(claimed)) == ["u1", "u3"]


async def test_an_expired_job_or_one_without_room_takes_no_permit(store, clock):
    await store.set_limit("k", NamedLimit(concurrency=1), declared=True)
    await store.enqueue([job("late", expires=1.0), job("k1", limits='{"k":1}')])
    clock.advance(2)
    await store.enqueue([job("k2", limits='{"k":1}'), job("b")])
    assert names(await claim(store, TWO, demand=5)) == ["k1", "b"]


async def test_merged_sources_behind_different_gates_keep_their_order(store):
    eu, us = Lane("default", "EU", 0), Lane("default", "US", 0)
    mixed = [job(f"{region}{n}", region=region) for n in range(3) for region in ("EU", "US")]
    await store.enqueue(mixed)
    tier = one_tier(source(eu, Cap("eu", 2)), source(us, Cap("us", 1)))
    claimed = await walk(store, in_turn(6, group(tier)))
    assert names(claimed) == ["EU0", "US0", "EU1"]
