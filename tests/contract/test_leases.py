"""Leases: how long a worker holds its jobs, and who takes them over."""

from msgspec.structs import replace

from mulligan.core.outcome import Later, Returned
from tests.contract.builders import (
    ANN,
    BOB,
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
)


async def test_a_live_workers_jobs_are_not_reclaimed(store, clock):
    await store.beat(ANN, [])
    await begin(store, *jobs("a", "b"))
    clock.advance(ANN.lease - 0.125)
    assert await store.reclaim(10, REAPER) == []


async def test_a_claim_alone_makes_a_worker_alive(store, clock):
    await begin(store, job("a"))
    clock.advance(ANN.lease - 1)
    assert await store.reclaim(10, REAPER) == []
    clock.advance(1)
    assert [each.id for each in await store.reclaim(10, REAPER)] == ["a"]


async def test_the_jobs_of_a_worker_that_stopped_beating_are_reclaimed_with_a_new_token(
    store, clock
):
    us = replace(ANN, region="US")
    [first] = await begin(store, job("a", region="EU"), worker=us)
    started = clock.now
    clock.advance(us.lease)
    [reclaimed] = await store.reclaim(10, REAPER)
    assert (reclaimed.id, reclaimed.token, reclaimed.attempt) == ("a", first.token + 1, 1)
    assert (reclaimed.worker, reclaimed.worker_region, reclaimed.started_at) == (
        "ann-1",
        "US",
        started,
    )
    stored = await store.get("a")
    assert (stored.status, stored.token) == ("processing", reclaimed.token)
    assert stored.worker == "reaper-1"
    assert (stored.worker_region, stored.retry_count) == ("US", 0)


async def test_a_reclaimed_job_is_committed_by_the_reaper_like_any_other(store, clock):
    [first] = await begin(store, job("a"))
    clock.advance(100)
    [reclaimed] = await store.reclaim(10, REAPER)
    assert await store.commit([again(reclaimed, message="lost")]) == ["written"]
    stored = await store.get("a")
    assert (stored.status, stored.retry_count) == ("pending", 1)
    [kept] = await store.history("a")
    assert (kept.worker, kept.started_at, kept.ended_at) == ("ann-1", first.started_at, clock.now)
    second = await start(store, RETRY, worker=BOB)
    assert (second.token, second.attempt) == (reclaimed.token + 1, 2)


async def test_an_expired_lease_that_nobody_has_reclaimed_may_still_commit(store, clock):
    [first] = await begin(store, job("a"))
    clock.advance(10 * ANN.lease)
    assert await store.commit([done(first)]) == ["written"]
    assert await store.reclaim(10, REAPER) == []


async def test_a_late_beat_keeps_what_nobody_has_reclaimed(store, clock):
    [first] = await begin(store, job("a"))
    clock.advance(10 * ANN.lease)
    assert (await store.beat(ANN, [first.lease])).lost == []
    assert await store.reclaim(10, REAPER) == []


async def test_each_beat_says_how_long_the_leases_of_its_worker_last(store, another, clock):
    await begin(store, job("a"))
    await another.beat(replace(ANN, lease=4 * ANN.lease), [])
    await store.enqueue(jobs("b"))
    assert (await start(store)).id == "b"  # a claim does not shorten them
    clock.advance(4 * ANN.lease - 1)
    assert await store.reclaim(10, REAPER) == []
    await another.beat(ANN, [])
    clock.advance(ANN.lease)
    assert sorted(each.id for each in await store.reclaim(10, REAPER)) == ["a", "b"]


async def test_a_beat_names_the_leases_that_are_no_longer_held(store, clock):
    first, second, third = await begin(store, *jobs("a", "b", "c"))
    clock.advance(100)
    [reclaimed] = await store.reclaim(1, REAPER)
    assert reclaimed.id == "a"
    await store.commit([done(third)])
    beat = await store.beat(ANN, [first.lease, second.lease, third.lease])
    assert beat.lost == [first.lease, third.lease]


async def test_a_lease_held_by_another_is_lost(store):
    [first] = await begin(store, job("a"))
    assert (await store.beat(BOB, [first.lease])).lost == [first.lease]
    assert (await store.beat(ANN, [first.lease])).lost == []


async def test_a_beat_reports_an_unknown_job_as_lost(store):
    [first] = await begin(store, job("a"))
    await store.commit([done(first)])
    await store.purge(["a"])
    assert (await store.beat(ANN, [first.lease])).lost == [first.lease]


async def test_a_beat_names_the_leases_that_a_worker_holds_and_never_shows(store, clock):
    first, second = await begin(store, *jobs("a", "b"))
    clock.advance(10)
    await store.beat(ANN, [first.lease])
    clock.advance(ANN.lease - 10)
    assert (await store.beat(ANN, [first.lease])).forgotten == []
    clock.advance(0.125)
    beat = await store.beat(ANN, [first.lease])
    assert (beat.lost, beat.forgotten) == ([], [second.lease])
    await store.commit([Returned(second.lease)])
    assert (await store.beat(ANN, [first.lease])).forgotten == []


async def test_what_another_holds_is_not_forgotten(store, clock):
    await store.beat(BOB, [])
    [first] = await begin(store, job("a"))
    clock.advance(10)
    await store.beat(ANN, [first.lease])
    clock.advance(10)
    assert (await store.beat(BOB, [])).forgotten == []


async def test_a_beat_tells_a_reaper_of_a_reclaim_that_it_never_shows(store, clock):
    [first] = await begin(store, job("a"))
    clock.advance(100)
    [unheard] = await store.reclaim(10, REAPER)
    clock.advance(REAPER.lease)
    assert (await store.beat(REAPER, [])).reclaimed == []
    clock.advance(0.125)
    beat = await store.beat(REAPER, [])
    assert (beat.lost, beat.forgotten) == ([], [])
    assert beat.reclaimed == [replace(unheard, worker=REAPER.id)]
    assert beat.reclaimed[0].started_at == first.started_at
    assert await store.commit([again(beat.reclaimed[0])]) == ["written"]
    assert (await store.get("a")).retry_count == 1
    assert (await store.beat(REAPER, [])).reclaimed == []


async def test_of_a_reclaim_that_it_shows_a_reaper_is_told_nothing(store, clock):
    await begin(store, job("a"))
    clock.advance(100)
    [reclaimed] = await store.reclaim(10, REAPER)
    for _ in range(3):
        clock.advance(REAPER.lease - 1)
        beat = await store.beat(REAPER, [reclaimed.lease])
        assert (beat.lost, beat.forgotten, beat.reclaimed) == ([], [], [])
    assert await store.commit([again(reclaimed)]) == ["written"]


async def test_a_beat_tells_claims_that_are_never_shown_from_reclaims(store, clock):
    await begin(store, *jobs("a", "b"))
    clock.advance(100)
    known, unheard = await store.reclaim(10, REAPER)
    await store.enqueue(jobs("c", "d"))
    shown, forgotten = (await claim(store, worker=REAPER, demand=2)).claims
    clock.advance(REAPER.lease + 1)
    beat = await store.beat(REAPER, [known.lease, shown.lease])
    assert (beat.lost, beat.forgotten) == ([], [forgotten.lease])
    assert [each.lease for each in beat.reclaimed] == [unheard.lease]


async def test_a_job_that_was_reclaimed_and_retried_is_claimed_like_any_other(store, clock):
    await begin(store, job("a"))
    clock.advance(100)
    [reclaimed] = await store.reclaim(10, REAPER)
    await store.commit([again(reclaimed)])
    claimed = await start(store, RETRY, worker=REAPER)
    clock.advance(REAPER.lease + 1)
    beat = await store.beat(REAPER, [])
    assert (beat.forgotten, beat.reclaimed) == ([claimed.lease], [])


async def test_a_reaper_is_alive_by_reclaiming(store, clock):
    await begin(store, job("a"))
    clock.advance(100)
    await store.reclaim(10, REAPER)
    clock.advance(REAPER.lease - 1)
    assert await store.reclaim(10, BOB) == []


async def test_what_a_worker_gave_back_before_it_left_is_not_reclaimed(store):
    first, second = await begin(store, *jobs("a", "b"))
    await store.commit([Returned(first.lease), done(second)])
    await store.leave(ANN)
    assert await store.reclaim(10, REAPER) == []
    assert names(await claim(store, worker=BOB, demand=5)) == ["a"]


async def test_leaving_without_having_come_is_no_error(store):
    await store.leave(ANN)


async def test_a_worker_that_left_may_come_back(store):
    [first] = await begin(store, job("a"))
    await store.leave(ANN)
    assert (await store.beat(ANN, [first.lease])).lost == []
    assert await store.reclaim(10, REAPER) == []


async def test_the_longest_running_are_reclaimed_first_and_no_more_than_asked_for(store, clock):
    for name in ("a", "b", "c"):
        await begin(store, job(name))
        clock.advance(1)
    clock.advance(100)
    assert [each.id for each in await store.reclaim(2, REAPER)] == ["a", "b"]
    assert [each.id for each in await store.reclaim(2, REAPER)] == ["c"]
    assert await store.reclaim(2, REAPER) == []


async def test_each_worker_has_a_lease_of_its_own_length(store, clock):
    await begin(store, job("a"), worker=replace(ANN, lease=5.0))
    await begin(store, job("b"), worker=replace(BOB, lease=50.0))
    clock.advance(10)
    assert [each.id for each in await store.reclaim(10, REAPER)] == ["a"]


async def test_pending_and_delayed_jobs_of_a_dead_worker_are_not_reclaimed(store, clock):
    first, second, third = await begin(store, *jobs("a", "b", "c"))
    await store.commit([again(first, 1000), Later(second.lease, 1000), dead(third)])
    clock.advance(500)
    assert await store.reclaim(10, REAPER) == []


async def test_a_crash_loop_ends_like_any_other_failure(store, clock):
    await store.enqueue(jobs("a"))
    for n in range(3):
        worker = replace(ANN, id=f"ann-{n}")
        await start(store, worker=worker)
        clock.advance(worker.lease)
        [reclaimed] = await store.reclaim(10, REAPER)
        await store.commit([again(reclaimed) if n < 2 else dead(reclaimed)])
    stored = await store.get("a")
    assert (stored.status, stored.retry_count, len(await store.history("a"))) == ("failed", 2, 3)


async def test_a_job_reclaimed_and_returned_by_the_reaper_runs_again(store, clock):
    await begin(store, job("a"))
    clock.advance(100)
    [reclaimed] = await store.reclaim(1, REAPER)
    assert await store.commit([Returned(reclaimed.lease)]) == ["written"]
    assert (await start(store)).token == reclaimed.token + 1


async def test_a_unique_key_passes_on_while_the_attempt_of_a_lost_lease_still_runs(store, clock):
    """Two functions may run at once, as a log of starts and ends sees; the key has one job."""
    [lost] = await begin(store, job("a", unique_key="k"))
    clock.advance(ANN.lease)
    [reclaimed] = await store.reclaim(10, REAPER)
    assert await store.enqueue([job("early", unique_key="k")]) == [("a", False)]
    assert await store.commit([done(reclaimed)]) == ["written"]
    [held] = await begin(store, job("b", unique_key="k"), worker=BOB)
    assert await store.commit([done(lost)]) == ["stale"]
    assert await store.enqueue([job("c", unique_key="k")]) == [("b", False)]
    assert await store.commit([done(held)]) == ["written"]
    assert await store.enqueue([job("d", unique_key="k")]) == [("d", True)]
