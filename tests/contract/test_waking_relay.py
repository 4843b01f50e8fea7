"""What one sleeper was told is not lost with it: another that may take the job hears of it.

Only one sleeper is rung for a job, and only one knows when a delayed one falls due. These are the
ways in which that one may never come for it.
"""

from mulligan.core.lane import Lane
from tests.contract.builders import ANN, BOB, FRESH, claim, job, jobs, names
from tests.contract.waits import woken

MAIL = Lane("mail", "default", 0)


async def test_a_worker_that_left_is_not_rung_in_anothers_place(store):
    await claim(store, worker=ANN)
    await claim(store, worker=BOB)
    await store.leave(ANN)
    await store.enqueue(jobs("a"))
    assert await woken(store, BOB)


async def test_a_worker_that_stopped_beating_is_not_rung_in_anothers_place(store, clock):
    await claim(store, worker=ANN)
    await claim(store, worker=BOB)
    clock.advance(ANN.lease)
    await store.beat(BOB, [])
    await store.enqueue(jobs("a"))
    assert await woken(store, BOB)


async def test_a_ring_that_a_leaving_worker_never_answered_goes_to_the_next(store):
    await claim(store, worker=ANN)
    await claim(store, worker=BOB)
    await store.enqueue(jobs("a"))
    await store.leave(ANN)
    assert await woken(store, BOB)
    assert names(await claim(store, worker=BOB)) == ["a"]


async def test_a_job_falls_due_for_another_when_the_one_that_knew_of_it_is_busy(store, clock):
    await claim(store, FRESH, MAIL, worker=ANN)
    await claim(store, FRESH, worker=BOB)
    await store.enqueue([job("later", delay=5.0)])
    assert (await claim(store, FRESH, MAIL, worker=ANN)).again_in == 5.0
    await store.enqueue([job("mail", queue="mail")])
    assert names(await claim(store, FRESH, MAIL, worker=ANN)) == ["mail"]
    clock.advance(5)
    await store.promote(100)
    assert await woken(store, BOB)


async def test_a_job_falls_due_for_another_when_the_one_that_knew_of_it_left(store, clock):
    await claim(store, worker=ANN)
    await claim(store, worker=BOB)
    await store.enqueue([job("later", delay=5.0)])
    assert (await claim(store, worker=ANN)).again_in == 5.0
    await store.leave(ANN)
    clock.advance(5)
    await store.promote(100)
    assert await woken(store, BOB)


async def test_a_job_falls_due_for_another_when_the_one_that_knew_of_it_died(store, clock):
    await claim(store, worker=ANN)
    await claim(store, worker=BOB)
    later = ANN.lease + 5
    await store.enqueue([job("later", delay=later)])
    assert (await claim(store, worker=ANN)).again_in == later
    clock.advance(ANN.lease)
    await store.beat(BOB, [])
    await store.reclaim(10, BOB)
    clock.advance(5)
    await store.beat(BOB, [])
    await store.promote(100)
    assert await woken(store, BOB)


async def test_a_job_whose_hearer_died_before_it_came_is_told_to_another(store, clock):
    await claim(store, worker=ANN)
    await claim(store, worker=BOB)
    await store.enqueue(jobs("a"))
    clock.advance(ANN.lease)
    await store.beat(BOB, [])
    await store.reclaim(10, BOB)
    await store.promote(100)
    assert await woken(store, BOB)


async def test_a_worker_that_asks_for_nothing_waits_no_more_and_passes_on(store):
    await claim(store, worker=ANN)
    await claim(store, worker=BOB)
    await store.enqueue(jobs("a"))
    assert names(await claim(store, demand=0, worker=ANN)) == []
    assert await woken(store, BOB)
    assert names(await claim(store, worker=BOB)) == ["a"]
