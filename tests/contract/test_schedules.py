"""Schedules: a record each, replaced only where it is known, together with its ticks."""

import asyncio

import pytest
from msgspec.structs import replace

from mulligan.core.limits import Limit
from mulligan.core.outcome import Later, Returned
from mulligan.core.page import Selection
from mulligan.core.reschedule import Reschedule
from tests.contract.builders import ANN, FRESH, again, dead, done, group, in_turn, job, start, walk

A, B, C = b'{"name":"a","n":1}', b'{"name":"a","n":2}', b'{"name":"a","n":"\xc3\xa9\\u0000"}'
# The costs of a job that needs limit k.
ONE = '{"k":1}'


def new(after=A, *place, **more):
    return Reschedule("a", None, after, place=place, **more)


async def ids(store):
    return sorted(each.id for each in (await store.page(Selection(), 100)).jobs)


async def test_a_schedule_is_kept_until_it_is_removed(store):
    assert await store.schedules() == {}
    assert await store.reschedule(new(C))
    assert await store.reschedule(Reschedule("b é'\"", None, B))
    assert await store.schedules() == {"a": C, "b é'\"": B}
    assert await store.reschedule(Reschedule("a", C, None))
    assert await store.schedules() == {"b é'\"": B}


async def test_schedules_come_in_the_order_of_their_names(store):
    for name in ("b", "a", "é", "B", "a1"):
        assert await store.reschedule(Reschedule(name, None, A))
    assert list(await store.schedules()) == ["B", "a", "a1", "b", "é"]


async def test_of_two_who_change_the_same_record_the_second_changes_nothing(store):
    await store.reschedule(new(A, job("first", delay=10)))
    assert await store.reschedule(Reschedule("a", A, B, ("first",), (job("second", delay=10),)))
    assert not await store.reschedule(Reschedule("a", A, C, ("second",), (job("third"),)))
    assert not await store.reschedule(Reschedule("a", None, C, ("second",), (job("third"),)))
    assert not await store.reschedule(Reschedule("a", A, None, ("second",)))
    assert await store.schedules() == {"a": B}
    assert await ids(store) == ["second"]


async def test_a_change_may_be_sent_again_after_its_reply_was_lost(store, clock):
    change = Reschedule("a", A, B, ("first",), (job("second"),))
    await store.reschedule(new(A, job("first", delay=10)))
    assert await store.reschedule(change)
    await store.commit([done(await start(store))])
    await store.purge(["second"])
    assert await store.reschedule(change)
    assert await ids(store) == []
    gone = Reschedule("a", B, None)
    assert await store.reschedule(gone)
    assert await store.reschedule(gone)


async def test_what_is_placed_is_enqueued_with_all_its_options(store, clock):
    options = {"delay": 60.0, "unique_key": "u", "limits": ONE, "expires": 90.0, "keep": 7}
    placed = job("a@1", queue="mail", region="EU", priority=2, **options)
    await store.reschedule(new(A, placed))
    found = await store.get("a@1")
    assert found is not None
    assert (found.queue, found.region, found.priority, found.unique_key) == ("mail", "EU", 2, "u")
    assert (found.due, found.expires_at) == (clock.now + 60, clock.now + 90)
    assert (found.limits, found.keep, found.body) == (ONE, 7, placed.body)


async def test_a_tick_whose_id_or_unique_key_is_stored_is_not_placed_again(store):
    await store.enqueue([job("x", unique_key="u")])
    await store.reschedule(new(A, job("x"), job("y", unique_key="u"), job("z")))
    assert await ids(store) == ["x", "z"]


async def test_a_withdrawn_tick_is_gone_and_its_id_and_keys_are_free_at_once(store, clock):
    tick = job("a@1", delay=60, unique_key="u", limits=ONE, expires=90)
    await store.reschedule(new(A, tick))
    other = replace(tick, delay=30.0, task="other")
    assert await store.reschedule(Reschedule("a", A, B, ("a@1",), (other,)))
    found = await store.get("a@1")
    assert found is not None
    assert (found.task, found.due, found.status) == ("other", clock.now + 30, "pending")
    assert await store.reschedule(Reschedule("a", B, None, ("a@1",)))
    assert await store.get("a@1") is None
    assert (await store.stats()).delayed == {}
    assert await store.promote(100) == 0
    clock.advance(100)
    assert await walk(store, in_turn(1, group(FRESH))) is not None
    assert await ids(store) == []


async def test_withdrawing_what_is_not_stored_does_nothing(store):
    assert await store.reschedule(new(A, job("a@1"), withdraw=("never",)))
    assert await ids(store) == ["a@1"]


async def test_a_tick_that_was_returned_unstarted_is_withdrawn(store):
    await store.reschedule(new(A, job("a@1")))
    claim = await start(store)
    await store.commit([Returned(claim.lease)])
    await store.reschedule(Reschedule("a", A, B, ("a@1",)))
    assert await ids(store) == []


async def test_a_tick_that_runs_is_left_alone(store):
    await store.reschedule(new(A, job("a@1")))
    claim = await start(store)
    await store.reschedule(Reschedule("a", A, B, ("a@1",), (job("a@1"),)))
    assert await store.commit([done(claim)]) == ["written"]
    await store.reschedule(Reschedule("a", B, A, ("a@1",), (job("a@1"),)))
    found = await store.get("a@1")
    assert found is not None
    assert found.status == "done"


@pytest.mark.parametrize("how", ["retry", "snooze", "cancelled", "dead", "replayed"])
async def test_a_tick_that_has_started_or_ended_is_left_alone(store, how):
    await store.reschedule(new(A, job("a@1")))
    claim = await start(store)
    match how:
        case "retry":
            await store.commit([again(claim, 5.0)])
        case "snooze":
            await store.commit([Later(claim.lease, 5.0)])
        case "cancelled":
            await store.cancel(["a@1"], "by hand")
        case _:
            await store.commit([dead(claim)])
    if how == "replayed":
        await store.replay(["a@1"])
    before = await store.get("a@1")
    await store.reschedule(Reschedule("a", A, B, ("a@1",), (job("a@1"),)))
    assert await store.get("a@1") == before


async def test_a_held_job_may_start_when_the_tick_before_it_is_withdrawn(store, clock):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.reschedule(new(A, job("a@1", limits=ONE)))
    await store.enqueue([job("next", limits=ONE)])
    await store.reschedule(Reschedule("a", A, None, ("a@1",)))
    assert (await start(store)).id == "next"


async def test_a_tick_that_names_a_limit_starts_in_its_turn(store):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.reschedule(new(A, job("a@1", limits=ONE), job("a@2", limits=ONE)))
    first = await start(store)
    assert first.id == "a@1"
    await store.commit([done(first)])
    assert (await start(store)).id == "a@2"


async def test_an_edit_is_news_to_who_makes_plans_and_a_tick_is_not(store):
    await store.beat(ANN, [])
    before = (await store.facts()).epoch
    await store.reschedule(new(A, job("a@1", delay=60)))
    assert (await store.facts()).epoch == before
    await store.reschedule(Reschedule("a", A, B, edit=True))
    between = (await store.facts()).epoch
    assert between > before
    await store.reschedule(Reschedule("a", A, C, edit=True))
    assert (await store.facts()).epoch == between


async def test_a_placed_tick_wakes_a_sleeping_worker(store):
    await walk(store, in_turn(1, group(FRESH)))
    waiting = asyncio.ensure_future(store.wait(ANN, 30))
    await asyncio.sleep(0)
    await store.reschedule(new(A, job("a@1")))
    await asyncio.wait_for(waiting, 10)
    assert (await start(store)).id == "a@1"


async def test_of_many_who_place_one_tick_at_once_one_does(store, another):
    changes = [Reschedule("a", None, b'{"n":%d}' % n, (), (job(f"by-{n}"),)) for n in range(8)]
    answers = await asyncio.gather(
        *[[store, another][n % 2].reschedule(change) for n, change in enumerate(changes)]
    )
    assert answers.count(True) == 1
    winner = answers.index(True)
    assert await store.schedules() == {"a": changes[winner].after}
    assert await ids(store) == [f"by-{winner}"]


async def test_a_thousand_ticks_are_placed_in_one_step(store):
    await store.reschedule(new(A, *[job(f"a@{n}") for n in range(1000)]))
    assert await store.depth(FRESH, 2000) == 1000
