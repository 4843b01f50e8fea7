"""Waking: an idle worker sleeps until something may matter to its last plan, and no longer."""

import asyncio

import pytest
from msgspec.structs import replace

from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import RetryFirst
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit as NamedLimit
from mulligan.core.outcome import Later, Returned
from mulligan.core.plan import Cap
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    REAPER,
    again,
    begin,
    claim,
    dead,
    done,
    group,
    in_turn,
    job,
    jobs,
    names,
    source,
    start,
)
from tests.contract.waits import undisturbed, woken

EU = Lane("default", "EU", 0)


async def test_a_wait_ends_when_its_time_is_up(store):
    assert names(await claim(store)) == []
    assert await undisturbed(store, ANN)


async def test_a_new_job_wakes_a_sleeper(store, another):
    await claim(store)
    sleeper = asyncio.create_task(woken(store, ANN))
    await asyncio.sleep(0)
    await another.enqueue(jobs("a"))
    assert await sleeper
    assert names(await claim(store)) == ["a"]


async def test_a_ring_between_claim_and_wait_is_not_lost(store, another):
    await claim(store)
    await another.enqueue(jobs("a"))
    assert await woken(store, ANN)


async def test_a_ring_is_heard_once(store):
    await claim(store)
    await store.enqueue(jobs("a"))
    assert await woken(store, ANN)
    assert await undisturbed(store, ANN)


async def test_a_ring_from_before_the_last_claim_is_forgotten(store):
    await claim(store)
    await store.enqueue(jobs("a"))
    assert names(await claim(store)) == ["a"]
    await claim(store)
    assert await undisturbed(store, ANN)


async def test_a_job_in_a_lane_that_the_plan_does_not_name_wakes_nobody(store):
    await claim(store, FRESH)
    await store.enqueue([job("a", region="EU"), job("b", queue="mail"), job("c", priority=2)])
    assert await undisturbed(store, ANN)


async def test_one_new_job_wakes_one_of_two_sleepers(store, another):
    await claim(store)
    await claim(another, worker=BOB)
    sleepers = {
        asyncio.create_task(woken(store, ANN)),
        asyncio.create_task(woken(another, BOB)),
    }
    await store.enqueue(jobs("a"))
    first, rest = await asyncio.wait(sleepers, return_when=asyncio.FIRST_COMPLETED)
    assert len(first) == 1
    assert (await asyncio.wait(rest, timeout=0.08))[0] == set()
    await store.enqueue(jobs("b"))
    assert all(await asyncio.gather(*sleepers))


async def test_as_many_sleepers_wake_as_there_are_new_jobs(store, another):
    await claim(store)
    await claim(another, worker=BOB)
    await store.enqueue(jobs("a", "b"))
    assert all(await asyncio.gather(woken(store, ANN), woken(another, BOB)))


async def test_a_job_wakes_the_one_sleeper_that_may_take_it(store):
    await claim(store, FRESH)
    await claim(store, EU, worker=BOB)
    await store.enqueue([job("a", region="EU")])
    assert await woken(store, BOB)
    assert await undisturbed(store, ANN)


async def test_an_earlier_due_wakes_a_sleeper_and_a_later_one_does_not(store):
    await store.enqueue([job("a", delay=5.0)])
    assert (await claim(store)).again_in == 5.0
    await store.enqueue([job("later", delay=6.0)])
    assert await undisturbed(store, ANN)
    await claim(store)
    await store.enqueue([job("sooner", delay=4.0)])
    assert await woken(store, ANN)
    assert (await claim(store)).again_in == 4.0


async def test_a_job_that_must_have_waited_is_news_only_from_then_on(store):
    patient = source(FRESH, waited=2.0)
    await store.enqueue([job("a", delay=5.0)])
    assert (await claim(store, patient)).again_in == 7.0
    await store.enqueue([job("no news", delay=5.0)])
    assert await undisturbed(store, ANN)
    await claim(store, patient)
    await store.enqueue([job("news", delay=4.0)])
    assert await woken(store, ANN)


async def test_a_worker_with_no_slot_left_is_not_woken(store):
    await store.enqueue(jobs("a"))
    assert names(await claim(store)) == ["a"]
    await store.enqueue(jobs("b"))
    assert await undisturbed(store, ANN)


async def test_a_worker_that_got_less_than_it_asked_for_is_woken(store):
    await store.enqueue(jobs("a"))
    assert names(await claim(store, demand=2)) == ["a"]
    await store.enqueue(jobs("b"))
    assert await woken(store, ANN)


async def test_a_worker_that_has_become_busy_does_not_take_anothers_ring(store):
    for worker in (BOB, ANN):
        await claim(store, worker=worker)
    await store.enqueue(jobs("a"))
    assert names(await claim(store, worker=ANN)) == ["a"]
    await claim(store, worker=BOB)
    await store.enqueue(jobs("b"))
    assert await woken(store, BOB)


BACK = {
    "again": lambda first: again(first, lane=FRESH),
    "later": lambda first: Later(first.lease, 0.0),
    "returned": lambda first: Returned(first.lease),
    "next": lambda first: done(first, b"1", job("next")),
}


@pytest.mark.parametrize("outcome", BACK.values(), ids=BACK)
async def test_a_commit_that_puts_a_job_into_a_lane_wakes_a_sleeper(store, outcome):
    [first] = await begin(store, job("a"))
    await claim(store, FRESH, worker=BOB)
    await store.commit([outcome(first)])
    assert await woken(store, BOB)


async def test_a_commit_that_ends_a_job_wakes_nobody(store):
    [first] = await begin(store, job("a"))
    await claim(store, worker=BOB)
    await store.commit([done(first)])
    assert await undisturbed(store, BOB)


async def test_a_replay_wakes_a_sleeper(store):
    [first] = await begin(store, job("a"))
    await store.commit([dead(first)])
    await claim(store, worker=BOB)
    await store.replay(["a"])
    assert await woken(store, BOB)


GATED = source(FRESH, Cap("one", 1))


async def test_a_freed_permit_wakes_one_that_waits_at_the_gate(store, another):
    await store.enqueue(jobs("a", "b"))
    first = await start(store, GATED)
    assert (await claim(another, GATED, worker=BOB)).again_in is None
    await store.commit([done(first)])
    assert await woken(another, BOB)


async def test_a_cancel_frees_a_permit_and_wakes(store):
    await store.enqueue(jobs("a", "b"))
    await start(store, GATED)
    await claim(store, GATED, worker=BOB)
    await store.cancel(["a"], "enough")
    assert await woken(store, BOB)


async def test_a_reclaim_frees_a_permit_and_wakes(store, clock):
    await store.enqueue(jobs("a", "b"))
    await start(store, GATED)
    clock.advance(ANN.lease)
    await claim(store, GATED, worker=BOB)
    await store.reclaim(10, REAPER)
    assert await woken(store, BOB)


async def test_a_permit_of_another_gate_wakes_nobody(store):
    await store.enqueue(jobs("a", "b"))
    first = await start(store, source(FRESH, Cap("other", 1)))
    second = await start(store, GATED)
    await claim(store, GATED, worker=BOB)
    await store.commit([done(first)])
    assert await undisturbed(store, BOB)
    await claim(store, GATED, worker=BOB)
    await store.commit([done(second)])
    assert await woken(store, BOB)


async def test_a_freed_permit_of_a_limit_wakes_one_that_may_take_the_next(store):
    await store.set_limit("k", NamedLimit(concurrency=1), declared=True)
    await store.enqueue(jobs("a", "b", limits='{"k":1}'))
    first = (await claim(store, demand=1)).claims[0]
    await claim(store, worker=BOB)
    await store.commit([done(first)])
    assert await woken(store, BOB)
    assert names(await claim(store, worker=BOB)) == ["b"]


@pytest.mark.parametrize("change", ["raised", "resumed", "gone"])
async def test_a_limit_with_more_room_wakes_one_that_waits(store, change):
    await store.set_limit("k", NamedLimit(concurrency=1), declared=True)
    await store.enqueue(jobs("a", "b", limits='{"k":1}'))
    if change == "resumed":
        await store.pause_limit("k", 1000.0)
    else:
        await claim(store, demand=1)
    await claim(store, worker=BOB)
    assert await undisturbed(store, BOB)
    await claim(store, worker=BOB)
    if change == "raised":
        await store.set_limit("k", NamedLimit(concurrency=2), declared=True)
    elif change == "gone":
        await store.set_limit("k", None, declared=True)
    else:
        await store.pause_limit("k", 0.0)
    assert await woken(store, BOB)


async def test_a_job_behind_others_of_its_line_wakes_nobody(store):
    await store.set_limit("k", NamedLimit(concurrency=1), declared=True)
    await store.enqueue(jobs("a", "b", limits='{"k":1}'))
    await claim(store, demand=1)
    await claim(store, worker=BOB)
    await store.enqueue(jobs("c", limits='{"k":1}'))
    assert await undisturbed(store, BOB)


async def test_a_change_of_facts_wakes_every_sleeper(store, another):
    changes = (
        lambda: store.pause("default", paused=True),
        lambda: another.pause("default", paused=False),
        lambda: store.configure("default", QueueSettings(RetryFirst())),
        lambda: another.beat(replace(REAPER, region="EU"), []),
    )
    for change in changes:
        await claim(store)
        await claim(another, worker=BOB)
        await change()
        assert all(await asyncio.gather(woken(store, ANN), woken(another, BOB)))


async def test_a_change_that_changes_nothing_wakes_nobody(store):
    await store.configure("default", QueueSettings(RetryFirst()))
    await claim(store)
    await store.configure("default", QueueSettings(RetryFirst()))
    await store.pause("default", paused=False)
    assert await undisturbed(store, ANN)


async def test_a_refused_plan_does_not_wait(store):
    await store.beat(ANN, [])
    await store.pause("other", paused=True)
    stale = in_turn(1, group(FRESH))
    assert (await store.claim(stale, ANN)).stale
    await store.enqueue(jobs("a"))
    assert await undisturbed(store, ANN)
