"""What stores promise in passing, where breaking it would break nothing else that is tested."""

import pytest

from mulligan.core.counts import Count
from mulligan.core.errors import InvalidError
from mulligan.core.health import SLOT, WINDOW, Health
from mulligan.core.job import Lease
from mulligan.core.lane import Lane
from mulligan.core.outcome import Cancelled, Returned
from mulligan.core.page import Selection
from mulligan.core.plan import Rate
from mulligan.core.stats import DelayedStats
from mulligan.core.worker import Worker
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    REAPER,
    URGENT,
    adopted_from,
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
    source,
    start,
    walk,
)
from tests.contract.waits import woken

BRIEF = Worker("brief-1", name="brief", lease=5.0)


async def test_more_than_a_thousand_outcomes_are_refused_whole(store):
    [first] = await begin(store, job("a"))
    many = [done(first), *(Returned(Lease(f"b-{n}", 1)) for n in range(1000))]
    with pytest.raises(InvalidError, match="1001 is over the limit of 1000"):
        await store.commit(many)
    assert (await store.get("a")).status == "processing"


async def test_a_gathering_job_says_which_member_was_cancelled_by_its_outcome(store):
    await store.enqueue([job("all", queue="gathered", awaits=1)])
    [member] = await begin(store, job("m0", gather="all"))
    await store.commit([Cancelled(member.lease, "cannot be stored")])
    assert (await store.get("all")).cancel_reason == "job m0, which it awaits, was cancelled"


async def test_a_gathering_job_says_which_member_was_cancelled_because_it_expired(store, clock):
    await store.enqueue(
        [job("all", queue="gathered", awaits=1), job("m0", gather="all", expires=5)]
    )
    clock.advance(5)
    assert names(await claim(store)) == []
    assert (await store.get("all")).cancel_reason == "job m0, which it awaits, was cancelled"


async def test_a_member_that_is_enqueued_and_done_once_more_does_not_count_twice(store):
    await store.enqueue([job("all", queue="gathered", awaits=2)])
    for result in (b"1", b"2"):
        [member] = await begin(store, job("m0", gather="all"))
        await store.commit([done(member, result)])
        await store.purge(["m0"])
    assert (await store.get("all")).awaits == 1
    assert await store.arrivals("all") == {0: b"1"}


async def test_of_jobs_that_started_at_once_the_first_in_line_is_reclaimed_first(store, clock):
    await store.enqueue([*jobs("a"), *jobs("urgent", priority=URGENT.priority)])
    started = await walk(store, in_turn(2, group(URGENT), group(FRESH)))
    assert names(started) == ["urgent", "a"]
    clock.advance(ANN.lease)
    assert [each.id for each in await store.reclaim(10, REAPER)] == ["a", "urgent"]


async def test_a_promotion_before_its_time_does_not_let_a_job_outlive_its_expiry(store, clock):
    await store.enqueue([job("late", expires=5.0, delay=60.0)])
    await store.promote(100)
    clock.advance(5)
    await store.promote(100)
    assert (await store.get("late")).status == "cancelled"


async def test_a_promotion_ends_as_many_as_asked_for_and_says_how_many(store, clock):
    await store.enqueue(jobs("a", "b", "c", expires=5.0, delay=60.0))
    clock.advance(5)
    assert [await store.promote(2) for _ in range(3)] == [2, 1, 0]


async def test_a_limited_start_is_counted_to_the_moment_and_not_to_the_second(store, clock):
    await store.enqueue(jobs("a", "b"))
    slow = source(FRESH, Rate("k", 1, 10.0))
    clock.advance(0.75)
    assert names(await claim(store, slow)) == ["a"]
    clock.advance(9.5)
    assert names(await claim(store, slow)) == []
    clock.advance(0.5)
    assert names(await claim(store, slow)) == ["b"]


async def test_failed_jobs_without_a_key_do_not_keep_each_other_from_being_replayed(store):
    claims = await begin(store, *jobs("a", "b"))
    await store.commit([dead(each) for each in claims])
    assert await store.replay(["a", "b"]) == [True, True]


async def test_a_failed_job_is_adopted_although_another_has_its_key(store, clock):
    origin = MemoryStore(clock=clock)
    [first] = await begin(origin, job("a", unique_key="k"))
    await origin.commit([dead(first)])
    await store.enqueue([job("b", unique_key="k")])
    assert await store.adopt(await adopted_from(origin, "a")) == [True]
    assert await store.replay(["a"]) == [False]


async def test_a_full_worker_passes_on_what_it_was_rung_for_whoever_else_was_rung(store):
    mail, pages = Lane("mail", "default", 0), Lane("print", "default", 0)
    await claim(store, mail, FRESH, worker=ANN)
    await claim(store, pages, worker=BRIEF)
    await claim(store, FRESH, worker=BOB)
    await store.enqueue([job("page", queue="print"), job("a"), job("letter", queue="mail")])
    assert names(await walk(store, in_turn(1, group(mail), group(FRESH)), ANN)) == ["letter"]
    assert await woken(store, BOB)


async def test_text_that_only_an_earlier_failure_had_is_not_found(store):
    [first] = await begin(store, job("a"))
    await store.commit([again(first, message="timed out")])
    await store.commit([dead(await start(store), "broke")])
    assert (await store.page(Selection(text="timed out"), 10)).jobs == []


async def test_a_job_due_in_exactly_an_hour_is_counted_as_due_within_the_hour(store):
    await store.enqueue([job("a", delay=3600.0), job("b", delay=3600.5)])
    assert (await store.stats()).delayed["default"] == DelayedStats(2, 0, 1)


async def test_what_was_counted_a_minute_ago_is_recent_still_and_then_with_its_slot_no_more(
    store, clock
):
    await store.count([Count("q", "US", "started", 1)])
    clock.advance(WINDOW)
    await store.count([Count("q", "US", "started", 1)])
    assert (await store.counts()).recent == {("q", "US", "started"): 2}
    clock.advance(SLOT - 1)
    await store.count([Count("q", "EU", "started", 1)])
    clock.advance(WINDOW - SLOT + 2)
    assert (await store.counts()).recent == {}


async def test_the_health_of_a_region_is_told_though_only_another_was_busy_at_times(store, clock):
    await store.count([Count("q", "US", "failed", 1)])
    clock.advance(SLOT)
    health = await store.count([Count("q", "EU", "succeeded", 1)])
    assert health == {("q", "EU"): Health(succeeded=1)}
