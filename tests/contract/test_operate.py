"""What an operator does: cancel, replay, purge, prune."""

from mulligan.core.lane import Lane
from mulligan.core.outcome import Cancelled, Later
from tests.contract.builders import (
    ANN,
    FRESH,
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


async def test_a_pending_job_is_cancelled_at_once(store, clock):
    await store.enqueue([job("a"), job("b", delay=50.0)])
    clock.advance(1)
    assert await store.cancel(["a", "b"], "no longer wanted") == [True, True]
    stored = await store.get("a")
    assert (stored.status, stored.cancel_reason) == ("cancelled", "no longer wanted")
    assert stored.ended_at == clock.now
    clock.advance(100)
    assert names(await claim(store, demand=5)) == []


async def test_a_running_job_is_cancelled_by_making_its_lease_stale(store, clock):
    [first] = await begin(store, job("a"))
    assert await store.cancel(["a"], "enough") == [True]
    stored = await store.get("a")
    assert (stored.status, stored.worker, stored.ended_at) == ("cancelled", None, clock.now)
    assert stored.token > first.token
    assert (await store.beat(ANN, [first.lease])).lost == [first.lease]
    assert await store.commit([done(first)]) == ["stale"]
    assert (await store.get("a")) == stored


async def test_a_cancelled_job_of_a_dead_worker_is_not_reclaimed(store, clock):
    await begin(store, job("a"))
    await store.cancel(["a"], "enough")
    clock.advance(100)
    assert await store.reclaim(10, ANN) == []


async def test_what_has_ended_or_is_unknown_is_not_cancelled(store):
    first, second = await begin(store, *jobs("done", "failed"))
    await store.commit([done(first), dead(second)])
    await store.enqueue(jobs("a"))
    assert await store.cancel(["done", "failed", "nobody", "a", "a"], "x") == [
        False,
        False,
        False,
        True,
        False,
    ]
    assert (await store.get("done")).cancel_reason is None


async def test_a_waiting_retry_may_be_cancelled(store, clock):
    [first] = await begin(store, job("a"))
    await store.commit([again(first, delay=5.0)])
    assert await store.cancel(["a"], "enough") == [True]
    clock.advance(5)
    assert names(await claim(store, demand=5)) == []
    assert len(await store.history("a")) == 1


async def test_a_replay_starts_over_and_keeps_the_history(store, clock):
    [first] = await begin(store, job("a", region="EU", priority=2))
    await store.commit([again(first)])
    await store.commit([dead(await start(store), "the last straw")])
    clock.advance(7)
    assert await store.replay(["a"]) == [True]
    stored = await store.get("a")
    assert (stored.status, stored.retry_count, stored.replay) == ("pending", 0, 1)
    assert (stored.lane, stored.due) == (Lane("default", "EU", 2), clock.now)
    assert stored.ended_at is None
    assert stored.last_failure_reason == "ValueError: the last straw"
    assert len(await store.history("a")) == 2
    third = await start(store, stored.lane)
    assert (third.attempt, third.replay, used(third)) == (1, 1, 3)
    await store.commit([dead(third, "still no luck")])
    assert [(each.number, each.replay) for each in await store.history("a")] == [
        (1, 0),
        (2, 0),
        (1, 1),
    ]


async def test_a_replay_forgets_snoozes(store):
    [first] = await begin(store, job("a"))
    await store.commit([Later(first.lease, 0.0)])
    await store.commit([dead(await start(store))])
    await store.replay(["a"])
    assert (await store.get("a")).snoozes == 0


async def test_only_failed_jobs_are_replayed(store):
    first, second, *_ = await begin(store, *jobs("done", "cancelled", "running"))
    await store.commit([done(first), Cancelled(second.lease, "enough")])
    await store.enqueue(jobs("pending"))
    wanted = ["done", "cancelled", "running", "pending", "nobody"]
    assert await store.replay(wanted) == [False] * 5
    assert (await store.get("done")).status == "done"


async def test_a_job_is_replayed_once_for_each_failure(store):
    [first] = await begin(store, job("a"))
    await store.commit([dead(first)])
    assert await store.replay(["a", "a"]) == [True, False]
    assert await store.replay(["a"]) == [False]
    assert names(await claim(store, demand=5)) == ["a"]


async def test_a_replay_needs_its_unique_key_to_be_free_and_takes_it_again(store):
    [first] = await begin(store, job("a", unique_key="k"))
    await store.commit([dead(first)])
    await store.enqueue([job("b", unique_key="k")])
    assert await store.replay(["a"]) == [False]
    assert (await store.get("a")).status == "failed"
    await store.cancel(["b"], "enough")
    assert await store.replay(["a"]) == [True]
    assert await store.enqueue([job("c", unique_key="k")]) == [("a", False)]


async def test_a_replayed_job_joins_the_end_of_its_lane(store):
    [first] = await begin(store, job("a"))
    await store.commit([dead(first)])
    await store.enqueue(jobs("b"))
    await store.replay(["a"])
    await store.enqueue(jobs("c"))
    assert names(await claim(store, FRESH, demand=5)) == ["b", "a", "c"]


async def test_the_commit_of_a_lost_lease_stays_refused_after_a_replay(store):
    [first] = await begin(store, job("a"))
    await store.commit([dead(first)])
    await store.replay(["a"])
    second = await start(store)
    await store.commit([again(second)])
    assert await store.commit([dead(first)]) == ["stale"]
    assert (await store.get("a")).status == "pending"


async def test_purge_deletes_only_what_has_ended_with_its_history(store):
    first, second, third, _ = await begin(store, *jobs("done", "failed", "cancelled", "running"))
    await store.commit([done(first), dead(second), Cancelled(third.lease, "enough")])
    await store.enqueue(jobs("pending"))
    wanted = ["done", "failed", "cancelled", "running", "pending", "nobody"]
    assert await store.purge(wanted) == [True, True, True, False, False, False]
    assert [await store.get(each) for each in wanted[:3]] == [None] * 3
    assert await store.history("failed") == []
    assert (await store.get("running")).status == "processing"
    assert await store.commit([dead(second)]) == ["stale"]


async def test_a_job_is_purged_once(store):
    [first] = await begin(store, job("a"))
    await store.commit([done(first)])
    assert await store.purge(["a", "a"]) == [True, False]
    assert await store.purge(["a"]) == [False]


async def test_a_purged_id_starts_from_nothing(store):
    [first] = await begin(store, job("a"))
    await store.commit([dead(first)])
    await store.purge(["a"])
    assert await store.enqueue(jobs("a")) == [("a", True)]
    stored = await store.get("a")
    assert (used(stored), stored.replay, stored.last_failure_reason) == (0, 0, None)
    assert await store.history("a") == []


async def test_pruning_keeps_failed_recent_and_unfinished_jobs(store, clock):
    first, second, third, fourth = await begin(store, *jobs("old", "failed", "gone", "recent"))
    await store.commit([done(first), dead(second), Cancelled(third.lease, "enough")])
    await store.enqueue(jobs("pending"))
    clock.advance(3600)
    await store.commit([done(fourth)])
    assert await store.prune(3600.0, 100) == 0
    clock.advance(0.125)
    assert await store.prune(3600.0, 100) == 2
    left = ["old", "failed", "gone", "recent", "pending"]
    found = [name for name in left if await store.get(name) is not None]
    assert found == ["failed", "recent", "pending"]


async def test_pruning_deletes_no_more_than_asked_for_at_a_time(store, clock):
    await store.commit([done(each) for each in await begin(store, *jobs("a", "b", "c"))])
    clock.advance(10)
    assert await store.prune(5.0, 2) == 2
    assert await store.prune(5.0, 2) == 1
    assert await store.prune(5.0, 2) == 0


async def test_a_replayed_job_is_not_pruned_by_its_old_end(store, clock):
    [first] = await begin(store, job("a"))
    await store.commit([dead(first)])
    await store.replay(["a"])
    clock.advance(100)
    assert await store.prune(1.0, 100) == 0
    await store.commit([again(await start(store))])
    assert names(await claim(store, RETRY)) == ["a"]


async def test_nothing_to_operate_on_is_nothing(store):
    assert await store.cancel([], "x") == []
    assert await store.replay([]) == []
    assert await store.purge([]) == []
    assert await store.adopt([]) == []


async def test_pruning_leaves_a_new_job_alone_that_has_the_id_of_a_purged_one(store, clock):
    [first] = await begin(store, job("a"))
    await store.commit([done(first)])
    await store.purge(["a"])
    await store.enqueue([job("a")])
    clock.advance(100)
    await store.prune(0, 100)
    assert (await store.get("a")).status == "pending"
