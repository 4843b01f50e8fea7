"""What a failure leaves behind is kept with the job and handed out with each claim."""

from msgspec.structs import replace

from mulligan.core.outcome import Later, Returned
from tests.contract.builders import BOB, again, begin, dead, done, job, start

TRAIL = '[["US","E/ü\'"],2.5]'


async def test_a_first_claim_has_no_trail(store):
    [first] = await begin(store, job("a"))
    assert first.trail == (await store.get("a")).trail == ""


async def test_a_retry_comes_with_the_trail_that_its_failure_left(store):
    [first] = await begin(store, job("a"))
    await store.commit([replace(again(first), trail=TRAIL)])
    assert (await store.get("a")).trail == TRAIL
    second = await start(store)
    assert second.trail == TRAIL


async def test_a_returned_and_a_snoozed_job_keep_their_trail(store):
    [first] = await begin(store, job("a"))
    await store.commit([replace(again(first), trail=TRAIL)])
    second = await start(store)
    await store.commit([Returned(second.lease)])
    third = await start(store)
    await store.commit([Later(third.lease, 0.0)])
    assert (await start(store)).trail == TRAIL


async def test_a_reclaimed_job_keeps_its_trail(store, clock):
    [first] = await begin(store, job("a"))
    await store.commit([replace(again(first), trail=TRAIL)])
    await start(store)
    clock.advance(100)
    [reclaimed] = await store.reclaim(1, BOB)
    assert reclaimed.trail == TRAIL


async def test_a_replay_begins_without_a_trail(store):
    [first] = await begin(store, job("a"))
    await store.commit([replace(again(first), trail=TRAIL)])
    await store.commit([dead(await start(store))])
    await store.replay(["a"])
    assert (await start(store)).trail == ""


async def test_a_job_that_is_done_shows_its_trail(store):
    [first] = await begin(store, job("a"))
    await store.commit([replace(again(first), trail=TRAIL)])
    await store.commit([done(await start(store))])
    assert (await store.get("a")).trail == TRAIL
