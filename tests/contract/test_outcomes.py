"""What each outcome writes, and what the history keeps of it."""

from msgspec.structs import replace

from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import Again, Cancelled, Later, Returned
from mulligan.core.page import Selection
from tests.contract.builders import (
    FRESH,
    RETRY,
    TRACEBACK,
    again,
    attempt,
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


async def test_done_stores_the_result_and_the_end(store, clock):
    [first] = await begin(store, job("a"))
    clock.advance(3)
    assert await store.commit([done(first, b'{"answer":42}')]) == ["written"]
    stored = await store.get("a")
    assert (stored.status, stored.ended_at) == ("done", clock.now)
    assert stored.result == b'{"answer":42}'
    assert stored.value() == {"answer": 42}
    assert stored.worker is None
    assert await store.history("a") == []


async def test_a_result_may_be_missing_or_any_bytes(store):
    first, second, third = await begin(store, *jobs("a", "b", "c"))
    blob = bytes(range(256)) * 4
    await store.commit([done(first, None), done(second, b""), done(third, blob)])
    assert (await store.get("a")).result is None
    assert (await store.get("b")).result == b""
    assert (await store.get("c")).result == blob


async def test_again_makes_a_retry_in_the_lane_that_was_chosen(store, clock):
    [first] = await begin(store, job("a", region="EU"))
    lane = Lane("default", "*-EU", Priority.RETRY)
    assert await store.commit([again(first, delay=4.0, lane=lane, message="no luck")]) == [
        "written"
    ]
    stored = await store.get("a")
    assert (stored.status, stored.retry_count) == ("pending", 1)
    assert (stored.lane, stored.due) == (lane, clock.now + 4)
    assert (stored.region, stored.priority) == ("EU", 0)
    assert stored.last_failure_reason == "ValueError: no luck"
    assert stored.worker is None
    assert stored.ended_at is None


async def test_a_free_retry_uses_none_of_the_jobs_and_is_remembered_like_any_failure(store, clock):
    [first] = await begin(store, job("a", region="EU"))
    lane = Lane("default", "*-EU", Priority.RETRY)
    free = replace(again(first, delay=4.0, lane=lane, message="away"), trail="kept", free=True)
    assert await store.commit([free]) == ["written"]
    assert await store.commit([free]) == ["already"]
    stored = await store.get("a")
    assert (stored.status, stored.retry_count, stored.snoozes) == ("pending", 0, 1)
    assert (stored.lane, stored.due, stored.trail) == (lane, clock.now + 4, "kept")
    assert [each.message for each in await store.history("a")] == ["away"]
    clock.advance(4)
    second = await start(store, lane)
    assert (second.attempt, second.snoozes, second.trail) == (1, 1, "kept")
    await store.commit([again(second)])
    assert (await store.get("a")).retry_count == 1


async def test_a_job_whose_probe_failed_for_free_has_started_and_does_not_expire(store, clock):
    [first] = await begin(store, job("a", expires=5.0))
    await store.commit([replace(again(first), free=True)])
    clock.advance(10)
    await store.promote(100)
    assert await store.commit([done(await start(store, RETRY))]) == ["written"]


async def test_a_retry_of_an_urgent_job_keeps_the_jobs_own_priority(store):
    [first] = await begin(store, job("a", priority=Priority.URGENT))
    lane = Lane("default", "*", Priority.URGENT_RETRY)
    await store.commit([again(first, lane=lane)])
    second = await start(store, lane)
    assert (second.priority, second.lane_priority) == (Priority.URGENT, Priority.URGENT_RETRY)


async def test_a_retry_without_delay_is_due_at_once(store, clock):
    [first] = await begin(store, job("a"))
    await store.commit([again(first, delay=0.0)])
    assert (await start(store)).due == clock.now


async def test_a_retry_may_join_the_end_of_a_fresh_lane(store):
    [first] = await begin(store, job("a"))
    await store.enqueue(jobs("b"))
    await store.commit([again(first, lane=FRESH)])
    await store.enqueue(jobs("c"))
    claimed = await claim(store, FRESH, demand=3)
    assert names(claimed) == ["b", "a", "c"]
    assert claimed.claims[1].retry_count == 1


async def test_later_uses_no_attempt_and_counts_a_snooze(store, clock):
    [first] = await begin(store, job("a"))
    assert await store.commit([Later(first.lease, 30.0)]) == ["written"]
    stored = await store.get("a")
    assert (stored.status, stored.retry_count, stored.snoozes) == ("pending", 0, 1)
    assert (stored.lane, stored.due) == (FRESH, clock.now + 30)
    assert await store.history("a") == []
    assert names(await claim(store)) == []
    clock.advance(30)
    second = await start(store)
    assert (second.attempt, second.snoozes, used(second)) == (1, 1, 2)


async def test_later_goes_back_to_the_lane_it_came_from(store):
    lane = Lane("default", "*-EU", Priority.RETRY)
    [first] = await begin(store, job("a"))
    await store.commit([again(first, lane=lane)])
    second = await start(store, lane)
    await store.commit([Later(second.lease, 0.0)])
    third = await start(store, lane)
    assert (third.lane, third.retry_count, third.snoozes) == (lane, 1, 1)


async def test_dead_makes_a_dead_letter_without_raising_retry_count(store, clock):
    [first] = await begin(store, job("a"))
    await store.commit([again(first)])
    second = await start(store)
    clock.advance(1)
    assert await store.commit([dead(second, "the last straw")]) == ["written"]
    stored = await store.get("a")
    assert (stored.status, stored.retry_count, stored.ended_at) == ("failed", 1, clock.now)
    assert stored.last_failure_reason == "ValueError: the last straw"
    assert names(await claim(store, demand=5)) == []


async def test_returned_keeps_its_place_and_uses_no_attempt(store, clock):
    first, second = (await begin(store, *jobs("a", "b", "c", "d")))[:2]
    clock.advance(10)
    await store.enqueue(jobs("e"))
    assert await store.commit([Returned(second.lease), Returned(first.lease)]) == ["written"] * 2
    stored = await store.get("a")
    assert (stored.status, stored.retry_count, stored.snoozes) == ("pending", 0, 0)
    assert (stored.due, stored.worker) == (first.due, None)
    claimed = await claim(store, demand=5)
    assert names(claimed) == ["a", "b", "e"]
    assert [used(each) for each in claimed.claims] == [2, 2, 1]
    assert await store.history("a") == []


async def test_a_returned_retry_keeps_its_place_among_the_retries(store, clock):
    first, second = await begin(store, *jobs("a", "b"))
    await store.commit([again(first, 1.0), again(second, 2.0)])
    clock.advance(5)
    taken = await start(store, RETRY)
    await store.commit([Returned(taken.lease)])
    assert names(await claim(store, RETRY, demand=2)) == ["a", "b"]


async def test_cancelled_ends_the_job_with_its_reason(store, clock):
    [first] = await begin(store, job("a"))
    assert await store.commit([Cancelled(first.lease, "asked to stop")]) == ["written"]
    stored = await store.get("a")
    assert (stored.status, stored.cancel_reason) == ("cancelled", "asked to stop")
    assert stored.ended_at == clock.now
    assert names(await claim(store)) == []


async def test_history_keeps_every_field_and_the_store_stamps_the_end(store, clock):
    [first] = await begin(store, job("a"))
    clock.advance(1.5)
    said = {"code": "E42", "delay": 3.0, "refused": '{"category":"Error"}', "traceback": TRACEBACK}
    failure = attempt(first, "no luck", **said)
    outcome = type(again(first))(first.lease, RETRY, 3.0, failure)
    await store.commit([outcome])
    [kept] = await store.history("a")
    assert (kept.number, kept.replay, kept.region, kept.worker) == (1, 0, "default", "ann-1")
    assert (kept.started_at, kept.ended_at) == (clock.now - 1.5, clock.now)
    assert (kept.type, kept.message, kept.code) == ("ValueError", "no luck", "E42")
    assert (kept.delay, kept.refused) == (3.0, '{"category":"Error"}')
    assert kept.traceback == TRACEBACK


async def test_fifty_whole_tracebacks_are_kept_and_read_by_neither_claims_nor_lists(store):
    await store.enqueue(jobs("a"))
    for n in range(55):
        claimed = await start(store)
        whole = f"{n} {'☃' * 2700}"
        failure = attempt(claimed, f"failure {n}", delay=0.0, traceback=whole)
        await store.commit([Again(claimed.lease, RETRY, 0.0, failure)])
    kept = [each.traceback for each in await store.history("a")]
    assert kept == [f"{n} {'☃' * 2700}" for n in range(5, 55)]
    [listed] = (await store.page(Selection(), 10)).jobs
    assert listed.last_failure_reason == "ValueError: failure 54"
    claimed = await start(store)
    assert (await store.commit([dead(claimed)]), len(await store.history("a"))) == (["written"], 50)


async def test_history_keeps_the_newest_fifty_oldest_first(store):
    await store.enqueue(jobs("a"))
    for n in range(60):
        await store.commit([again(await start(store), message=f"failure {n}")])
    history = await store.history("a")
    assert [each.message for each in history] == [f"failure {n}" for n in range(10, 60)]
    assert [each.number for each in history] == list(range(11, 61))
    stored = await store.get("a")
    assert (stored.retry_count, stored.last_failure_reason) == (60, "ValueError: failure 59")


async def test_the_last_failure_is_still_shown_after_a_success(store):
    [first] = await begin(store, job("a"))
    await store.commit([again(first, message="no luck")])
    await store.commit([done(await start(store))])
    assert (await store.get("a")).last_failure_reason == "ValueError: no luck"
    assert len(await store.history("a")) == 1
