"""Adopting the jobs of another store as they stand."""

from mulligan.core.job import Adopted, Job
from mulligan.core.lane import Lane
from mulligan.core.outcome import Later
from mulligan.core.page import Selection
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import (
    ANN,
    FRESH,
    RETRY,
    adopted_from,
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
from tests.contract.waits import undisturbed, woken


async def test_a_waiting_retry_is_taken_over_with_all_it_has_been_through(store, clock):
    other = MemoryStore(clock=clock)
    fields = {"region": "EU", "priority": 2, "unique_key": "u", "fairness_key": "f"}
    [first] = await begin(other, job("a", limits='{"k":3,"l":1}', expires=50.0, **fields))
    clock.advance(1)
    lane = Lane("default", "*-EU", 3)
    await other.commit([again(first, delay=5.0, lane=lane, message="no luck")])
    before = await other.get("a")
    clock.advance(1)
    assert await store.adopt(await adopted_from(other, "a")) == [True]
    after = await store.get("a")
    for field in Job.__struct_fields__:
        if field not in ("sequence", "token", "worker_region"):
            assert getattr(after, field) == getattr(before, field), field
    assert await store.history("a") == await other.history("a")
    assert names(await claim(store, lane)) == []
    clock.advance(4)
    second = await start(store, lane)
    assert (second.attempt, used(second)) == (2, used(first) + 1)


async def test_a_fresh_and_a_delayed_job_start_when_they_would_have(store, clock):
    other = MemoryStore(clock=clock)
    await other.enqueue([job("a"), job("b", delay=5.0)])
    clock.advance(2)
    await store.adopt(await adopted_from(other, "a", "b"))
    claimed = await claim(store, demand=5)
    assert (names(claimed), claimed.again_in, claimed.claims[0].due) == (["a"], 3.0, clock.now - 2)


async def test_a_running_job_is_pending_at_the_place_it_was_taken_from(store, clock):
    other = MemoryStore(clock=clock)
    [first] = await begin(other, job("a"))
    clock.advance(3)
    await store.enqueue(jobs("b"))
    assert await store.adopt(await adopted_from(other, "a")) == [True]
    stored = await store.get("a")
    assert (stored.status, stored.worker, stored.due) == ("pending", None, first.due)
    claimed = await claim(store, FRESH, demand=5)
    assert names(claimed) == ["a", "b"]
    assert used(claimed.claims[0]) > used(first)


async def test_a_dead_letter_stays_one(store, clock):
    other = MemoryStore(clock=clock)
    [first] = await begin(other, job("a"))
    clock.advance(1)
    await other.commit([dead(first, "no luck")])
    clock.advance(1)
    assert await store.adopt(await adopted_from(other, "a")) == [True]
    stored = await store.get("a")
    assert (stored.status, stored.ended_at) == ("failed", clock.now - 1)
    assert stored.last_failure_reason == "ValueError: no luck"
    assert (await store.stats()).lanes == []
    assert names(await claim(store, demand=5)) == []


async def test_an_adopted_dead_letter_may_be_replayed(store, clock):
    other = MemoryStore(clock=clock)
    [first] = await begin(other, job("a"))
    await other.commit([dead(first)])
    await store.adopt(await adopted_from(other, "a"))
    assert await store.replay(["a"]) == [True]
    assert await store.depth(FRESH, 10) == 1
    assert names(await claim(store, demand=5)) == ["a"]


async def test_snoozes_and_replays_are_taken_over(store, clock):
    other = MemoryStore(clock=clock)
    [first] = await begin(other, job("a"))
    await other.commit([dead(first)])
    await other.replay(["a"])
    await other.commit([Later((await start(other)).lease, 0.0)])
    await store.adopt(await adopted_from(other, "a"))
    second = await start(store)
    assert (second.replay, second.snoozes) == (1, 1)


async def test_what_is_stored_already_is_not_taken_over(store, clock):
    other = MemoryStore(clock=clock)
    await other.enqueue([job("a", task="theirs"), job("b", unique_key="k"), job("c")])
    await store.enqueue([job("a", task="ours"), job("x", unique_key="k")])
    handed = await adopted_from(other, "a", "b", "c", "c")
    assert await store.adopt(handed) == [False, False, True, False]
    assert (await store.get("a")).task == "ours"
    assert await store.get("b") is None


async def test_an_adopted_unique_key_is_taken_by_what_has_not_ended_only(store, clock):
    other = MemoryStore(clock=clock)
    [first] = await begin(other, job("failed", unique_key="k"))
    await other.commit([dead(first)])
    await other.enqueue([job("a", unique_key="k")])
    assert await store.adopt(await adopted_from(other, "failed", "a")) == [True, True]
    assert await store.enqueue([job("b", unique_key="k")]) == [("a", False)]
    assert await store.replay(["failed"]) == [False]


async def test_an_adopted_job_wakes_a_sleeper_and_a_dead_letter_does_not(store, clock):
    other = MemoryStore(clock=clock)
    [first] = await begin(other, job("failed"))
    await other.commit([dead(first)])
    await other.enqueue(jobs("a"))
    await claim(store)
    await store.adopt(await adopted_from(other, "failed"))
    assert await undisturbed(store, ANN)
    await claim(store)
    await store.adopt(await adopted_from(other, "a"))
    assert await woken(store, ANN)


async def test_a_page_of_one_store_can_be_handed_to_another(store, clock):
    other = MemoryStore(clock=clock)
    taken = await begin(other, *jobs("a", "b", "c", "d"))
    await other.commit([again(taken[0]), again(taken[1], 9.0), done(taken[2])])
    found = (await other.page(Selection(), 10)).jobs
    open_jobs = [each for each in found if each.status not in ("done", "cancelled")]
    handed = [Adopted(each, await other.history(each.id)) for each in open_jobs]
    assert await store.adopt(handed) == [True] * 3
    assert sorted(names(await claim(store, FRESH, RETRY, demand=5))) == ["a", "d"]
