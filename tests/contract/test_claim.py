"""What a claim gives, to whom, and never before its time."""

from msgspec.structs import replace

from mulligan.core.job import Lease
from mulligan.core.lane import Lane
from tests.contract.builders import (
    BOB,
    RETRY,
    again,
    begin,
    claim,
    job,
    jobs,
    names,
    start,
    used,
)


async def test_a_claim_says_everything_that_a_worker_needs(store, clock):
    new = job("a", queue="mail", task="send", region="EU", priority=2, delay=1.0)
    await store.enqueue([new])
    clock.advance(4)
    worker = replace(BOB, region="US")
    claimed = await start(store, Lane("mail", "EU", 2), worker=worker)
    assert claimed.lease == Lease("a", (await store.get("a")).token)
    assert (claimed.queue, claimed.task, claimed.body) == ("mail", "send", new.body)
    assert (claimed.region, claimed.priority) == ("EU", 2)
    assert claimed.lane == Lane("mail", "EU", 2)
    assert (claimed.due, claimed.started_at) == (clock.now - 3, clock.now)
    assert (claimed.retry_count, claimed.replay, claimed.snoozes) == (0, 0, 0)
    assert (claimed.worker, claimed.worker_region) == ("bob-1", "US")


async def test_a_claimed_job_is_processing_in_the_hands_of_its_worker(store, clock):
    [first] = await begin(store, job("a"))
    stored = await store.get("a")
    assert (stored.status, stored.token) == ("processing", first.token)
    assert (stored.worker, stored.worker_region) == ("ann-1", "default")
    assert stored.started_at == clock.now
    assert stored.last_retry_at is None


async def test_the_start_of_a_retry_is_kept_as_last_retry_at(store, clock):
    [first] = await begin(store, job("a"))
    await store.commit([again(first, delay=2)])
    clock.advance(5)
    second = await start(store)
    assert (second.retry_count, second.attempt, used(second)) == (1, 2, 2)
    assert second.lane == RETRY
    assert (await store.get("a")).last_retry_at == second.started_at == clock.now


async def test_a_job_is_never_in_two_hands(store, another):
    await store.enqueue(jobs("a", "b"))
    first = await claim(store, demand=5)
    second = await claim(another, demand=5, worker=BOB)
    assert names(first) == ["a", "b"]
    assert names(second) == []


async def test_two_clients_share_a_lane_without_overlap(store, another):
    await store.enqueue(jobs("a", "b", "c", "d"))
    taken = [names(await claim(each, demand=1))[0] for each in (store, another, store, another)]
    assert taken == ["a", "b", "c", "d"]


async def test_no_more_is_claimed_than_asked_for(store):
    await store.enqueue(jobs("a", "b", "c"))
    assert names(await claim(store, demand=2)) == ["a", "b"]
    assert names(await claim(store, demand=2)) == ["c"]


async def test_a_claim_for_no_slots_takes_nothing_and_says_what_waits(store):
    await store.enqueue(jobs("a"))
    claimed = await claim(store, demand=0)
    assert names(claimed) == []
    assert claimed.left == (True,)


async def test_due_retries_start_in_the_order_in_which_they_fell_due(store, clock):
    first, second, third = await begin(store, *jobs("a", "b", "c"))
    await store.commit([again(first, 3.0), again(second, 1.0), again(third, 2.0)])
    clock.advance(10)
    assert names(await claim(store, RETRY, demand=3)) == ["b", "c", "a"]


async def test_equal_due_times_go_in_the_order_of_commit(store, clock):
    first, second, third = await begin(store, *jobs("a", "b", "c"))
    await store.commit([again(third, 2.0)])
    await store.commit([again(second, 2.0), again(first, 2.0)])
    clock.advance(2)
    assert names(await claim(store, RETRY, demand=3)) == ["c", "b", "a"]


async def test_a_retry_never_starts_before_its_time(store, clock):
    [first] = await begin(store, job("a"))
    await store.commit([again(first, delay=2.0)])
    claimed = await claim(store)
    assert (names(claimed), claimed.left, claimed.again_in) == ([], (False,), 2.0)
    clock.advance(1.999)
    assert names(await claim(store)) == []
    clock.advance(0.001)
    assert names(await claim(store)) == ["a"]


async def test_promotion_does_not_start_a_retry_early(store, clock):
    [first] = await begin(store, job("a"))
    await store.commit([again(first, delay=2.0)])
    clock.advance(1.5)
    await store.promote(100)
    assert names(await claim(store)) == []
    clock.advance(0.5)
    await store.promote(100)
    assert names(await claim(store)) == ["a"]
    assert names(await claim(store)) == []


async def test_a_job_that_waits_for_years_starts_on_time(store, clock):
    years = 50 * 365 * 86_400.0
    await store.enqueue([job("a", delay=years)])
    assert (await claim(store)).again_in == years
    clock.advance(years)
    assert names(await claim(store)) == ["a"]
