"""What leaves the file."""

from mulligan.core.counts import Count
from tests.contract.builders import ANN, BOB, begin, job
from tests.stores.sqlite.kit import rows


async def test_what_is_past_its_time_leaves_the_file(store, clock):
    await store.note("a", b"1", 10)
    await store.count([Count("default", "default", "failed", 1)])
    clock.advance(61)
    await store.prune(0, 100)
    assert await rows(store, "SELECT * FROM note") == []
    assert await rows(store, "SELECT * FROM recent_count") == []


async def test_a_worker_that_was_killed_is_forgotten_a_day_after_its_jobs_were_reclaimed(
    store, clock
):
    await begin(store, job("a"), worker=ANN)
    clock.advance(86_400 - 1)
    await store.prune(0, 100)
    assert await rows(store, "SELECT id FROM worker") == [(ANN.id,)]
    clock.advance(2)
    await store.prune(0, 100)
    assert await rows(store, "SELECT id FROM worker") == [(ANN.id,)]
    await store.reclaim(10, BOB)
    await store.prune(0, 100)
    assert await rows(store, "SELECT id FROM worker") == [(BOB.id,)]
