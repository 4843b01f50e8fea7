"""Finishing a job and enqueuing what comes next is one step."""

from mulligan.core.lane import Lane
from tests.contract.builders import (
    BOB,
    FRESH,
    begin,
    claim,
    dead,
    done,
    job,
    names,
)


async def test_a_stale_done_enqueues_nothing(store, clock):
    [first] = await begin(store, job("a"))
    clock.advance(100)
    await store.reclaim(1, BOB)
    assert await store.commit([done(first, b"1", job("a.next"))]) == ["stale"]
    assert await store.get("a.next") is None


async def test_finishing_and_enqueuing_the_next_stage_is_one_step(store, clock):
    [first] = await begin(store, job("a"))
    clock.advance(2)
    following = [job("a.1", queue="upload", task="upload"), job("a.2", delay=5.0)]
    assert await store.commit([done(first, b"1", *following)]) == ["written"]
    assert (await store.get("a")).status == "done"
    stored = await store.get("a.1")
    assert (stored.status, stored.queue, stored.created_at) == ("pending", "upload", clock.now)
    assert (await store.get("a.2")).due == clock.now + 5
    upload = Lane("upload", "default", 0)
    assert names(await claim(store, upload, FRESH, demand=5)) == ["a.1"]


async def test_a_repeated_done_doubles_no_next_job(store):
    [first] = await begin(store, job("a"))
    outcome = done(first, b"1", job("a.1"))
    assert await store.commit([outcome]) == ["written"]
    assert await store.commit([outcome]) == ["already"]
    assert names(await claim(store, demand=5)) == ["a.1"]


async def test_a_next_job_that_is_stored_already_is_left_as_it_is(store):
    await store.enqueue([job("a.1", task="first")])
    [first] = await begin(store, job("a", queue="other"))
    assert await store.commit([done(first, b"1", job("a.1", task="second"))]) == ["written"]
    assert (await store.get("a.1")).task == "first"


async def test_a_next_job_obeys_unique_keys_and_may_take_over_that_of_the_finished_one(store):
    await store.enqueue([job("other", unique_key="taken", delay=60.0)])
    [first] = await begin(store, job("a", unique_key="mine"))
    following = [job("b", unique_key="taken"), job("c", unique_key="mine")]
    await store.commit([done(first, b"1", *following)])
    assert await store.get("b") is None
    assert (await store.get("c")).status == "pending"


async def test_a_dead_letter_may_tell_of_itself_in_the_same_step(store):
    [first] = await begin(store, job("a"))
    outcome = dead(first, "boom", job("a.dead.0", queue="alerts"))
    assert await store.commit([outcome]) == ["written"]
    assert await store.commit([outcome]) == ["already"]
    alerts = Lane("alerts", "default", 0)
    assert names(await claim(store, alerts, demand=5)) == ["a.dead.0"]
