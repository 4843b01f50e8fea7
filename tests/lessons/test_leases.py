"""Leases: who holds a job, for how long, and what a holder that lost it can still do."""

import asyncio
from itertools import chain

from msgspec.structs import replace

from mulligan.core.decide import LOST, decide
from mulligan.core.limits import Limit
from mulligan.core.outcome import Cancelled, Later, Lost, Returned
from mulligan.core.retry import Retry
from tests.contract.builders import (
    ANN,
    BOB,
    REAPER,
    again,
    begin,
    body,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
    start,
    used,
)
from tests.hostile.vandal import forget_worker


async def test_a_delay_far_longer_than_the_lease_starts_once(store, clock):
    """celery#2599, kombu#337: a delay past the visibility timeout ran again and again."""
    await store.enqueue([job("a", delay=20 * ANN.lease)])
    for _ in range(22):
        await store.promote(100)
        assert await store.reclaim(100, BOB) == []
        clock.advance(ANN.lease)
    claimed = await claim(store, demand=5)
    assert names(claimed) == ["a"]
    assert used(claimed.claims[0]) == 1
    assert names(await claim(store, demand=5)) == []


async def test_a_job_ten_times_longer_than_its_lease_runs_once_while_its_worker_beats(store, clock):
    """taskiq-redis#101, oban#1141: long jobs were handed to a second worker while they ran."""
    [first] = await begin(store, job("a"))
    for _ in range(12):
        clock.advance(ANN.lease * 0.9)
        assert (await store.beat(ANN, [first.lease])).lost == []
        assert await store.reclaim(10, REAPER) == []
        assert names(await claim(store, worker=BOB)) == []
    assert await store.commit([done(first)]) == ["written"]


async def test_a_stale_workers_ack_nack_extend_and_error_text_change_nothing(store, clock):
    """bull#308, solid_queue#589, river#1302: an ack by id alone ended what another had retried."""
    [first] = await begin(store, job("a"))
    clock.advance(100)
    [reclaimed] = await store.reclaim(1, BOB)
    before = await store.get("a")
    for stale in (
        done(first, b'"late"', job("next")),
        again(first, 3600.0, message="late"),
        dead(first, "late", job("told")),
        Later(first.lease, 5.0),
        Returned(first.lease),
        Cancelled(first.lease, "late"),
    ):
        assert await store.commit([stale] * 100) == ["stale"] * 100
        assert await store.get("a") == before
        assert await store.history("a") == []
    assert await store.get("next") is await store.get("told") is None
    assert (await store.beat(ANN, [first.lease])).lost == [first.lease]
    clock.advance(BOB.lease)
    await store.beat(ANN, [first.lease])
    [taken] = await store.reclaim(1, REAPER)
    assert (taken.worker, taken.token) == (BOB.id, reclaimed.token + 1)
    assert await store.commit([done(taken)]) == ["written"]


async def test_two_reapers_racing_requeue_once(store, another, clock):
    """taskiq-redis#123, asynq#717: each of two recoverers put the job back."""
    many = [f"j{n}" for n in range(20)]
    await begin(store, *jobs(*many))
    clock.advance(ANN.lease)
    reapers = [replace(REAPER, id=f"reaper-{n}") for n in range(6)]
    handles = [store, another] * 3

    async def reap(handle, reaper):
        reclaimed = await handle.reclaim(10, reaper)
        await handle.commit([again(each, message="lost") for each in reclaimed])
        return reclaimed

    pairs = zip(handles, reapers, strict=True)
    reclaimed = await asyncio.gather(*(reap(*pair) for pair in pairs))
    assert sorted(each.id for each in chain(*reclaimed)) == sorted(many)
    assert [(await store.get(each)).retry_count for each in many] == [1] * 20
    assert sorted(names(await claim(store, demand=100, worker=BOB))) == sorted(many)


async def test_killing_who_reclaims_does_not_stop_reclaiming(store, clock):
    """taskiq-redis#131, procrastinate#1408: a lock of a dead recoverer kept all others away."""
    await begin(store, job("a"))
    clock.advance(100)
    [first] = await store.reclaim(10, REAPER)
    clock.advance(REAPER.lease)
    [second] = await store.reclaim(10, BOB)
    assert (second.id, second.token) == ("a", first.token + 1)
    assert await store.commit([again(first)]) == ["stale"]
    assert await store.commit([again(second)]) == ["written"]
    assert (await store.get("a")).retry_count == 1


async def test_a_processing_job_whose_lease_record_is_missing_is_found(store):
    """asynq#1144, river#1258: thousands of running jobs that no lease spoke of were never found."""
    [first] = await begin(store, job("a"))
    forget_worker(store, ANN.id)
    [reclaimed] = await store.reclaim(10, REAPER)
    assert (reclaimed.id, reclaimed.worker, reclaimed.token) == ("a", "ann-1", first.token + 1)


async def test_claimed_but_not_yet_started_jobs_are_not_swept_as_dead(store, clock):
    """saq#124, saq#277: what was taken and had not begun looked stuck, and was aborted."""
    taken = await begin(store, *jobs("a", "b", "c"))
    leases = [each.lease for each in taken]
    for _ in range(12):
        clock.advance(ANN.lease * 0.9)
        await store.beat(ANN, leases)
        assert await store.reclaim(10, REAPER) == []
        await store.promote(10)
        await store.prune(0.0, 10)
    assert [(await store.get(each)).status for each in ("a", "b", "c")] == ["processing"] * 3
    assert await store.commit([done(each) for each in taken]) == ["written"] * 3


async def test_a_worker_that_comes_back_under_its_name_does_not_hide_its_old_jobs(store, clock):
    """oban#862: jobs of a node that was restarted under its name were taken for its own."""
    await begin(store, job("a"))
    clock.advance(ANN.lease)
    reborn = replace(ANN, id="ann-2")
    await store.beat(reborn, [])
    await begin(store, job("b"), worker=reborn)
    assert [each.id for each in await store.reclaim(10, REAPER)] == ["a"]


async def test_a_crash_on_the_last_attempt_does_not_lock_the_queue(store, clock):
    """graphile-worker#254: a job that died with its worker at its last attempt kept its queue."""
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    keys = {"limits": '{"k":1}', "body": body(Retry(0))}
    await begin(store, job("a", unique_key="u", **keys))
    await store.enqueue([job("b", **keys)])
    assert names(await claim(store, worker=BOB)) == []
    clock.advance(ANN.lease)
    [reclaimed] = await store.reclaim(1, REAPER)
    await store.commit([decide(reclaimed, Lost(), await store.facts(), 0.0)])
    stored = await store.get("a")
    assert (stored.status, stored.last_failure_reason) == ("failed", f"Lost: {LOST.message}")
    assert (await store.enqueue([job("c", unique_key="u")]))[0].created
    assert (await start(store, worker=BOB)).id == "b"
