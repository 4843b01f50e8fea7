"""Who was last in a line at some time."""

from tests.contract.builders import FRESH, begin, claim, done, job, jobs, start


async def test_an_empty_lane_has_no_last_job(store, clock):
    assert await store.tail(FRESH, clock.now) is None


async def test_the_last_is_the_last_of_those_that_were_due_by_then(store, clock):
    await store.enqueue(jobs("a", "b"))
    then = clock.now
    clock.advance(1)
    await store.enqueue(jobs("c"))
    assert await store.tail(FRESH, then) == "b"
    assert await store.tail(FRESH, clock.now) == "c"
    assert await store.tail(FRESH, then - 1) is None


async def test_a_delayed_job_stands_where_it_falls_due(store, clock):
    await store.enqueue([job("late", delay=10.0), job("a")])
    assert await store.tail(FRESH, clock.now) == "a"
    assert await store.tail(FRESH, clock.now + 10) == "late"


async def test_who_has_started_or_ended_waits_no_longer(store, clock):
    await store.enqueue(jobs("a", "b", "c", "d"))
    await store.cancel(["d"], "no need")
    assert await store.tail(FRESH, clock.now) == "c"
    claimed = await claim(store, FRESH, demand=3)
    assert await store.tail(FRESH, clock.now) is None
    await store.commit([done(each) for each in claimed.claims])
    assert await store.tail(FRESH, clock.now) is None


async def test_other_lanes_do_not_count(store, clock):
    await begin(store, job("a"))
    await store.enqueue([job("b", region="EU"), job("c", queue="other"), job("d", priority=2)])
    assert await store.tail(FRESH, clock.now) is None
    await store.enqueue(jobs("e"))
    assert (await start(store)).id == "e"
