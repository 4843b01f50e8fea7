"""Fan-in that a crash or another program interrupts."""

import asyncio
from contextlib import contextmanager

import pytest

from mulligan.core.job import Adopted
from mulligan.core.lane import Lane
from mulligan.core.page import Selection
from mulligan.stores.memory import MemoryStore
from mulligan.stores.mongo import repair
from mulligan.stores.mongo.arrivals import keep
from mulligan.stores.mongo.gather import Gatherer
from tests.contract.builders import BOB, FRESH, claim, dead, done, job, names, start
from tests.store_kit import handle
from tests.stores.mongo.steps import crash, finish, pop, put_back

GATHERED = Lane("gathered", "default", 0)


ARRIVING = ["settle", "arrive", "all_are_there", "settled"]


def gathering(count, name="all", **fields):
    return job(name, queue="gathered", awaits=count, **fields)


async def begin_gathering(store, count):
    """The members of a gathering job, claimed."""
    members = [job(f"m{n}", gather="all", gather_index=n) for n in range(count)]
    await store.enqueue([gathering(count), *members])
    return (await claim(store, FRESH, demand=count)).claims


@contextmanager
def dying(monkeypatch, step, after=0):
    """Whoever comes to this step of telling a gathering job dies there, after so many did not."""
    alive = iter(range(after))
    go_on = getattr(Gatherer, step)

    async def die(*arguments):
        return await go_on(*arguments) if next(alive, None) is not None else crash()

    with monkeypatch.context() as patched:
        patched.setattr(Gatherer, step, die)
        with pytest.raises(asyncio.CancelledError):
            yield


@contextmanager
def producer_dying(monkeypatch, step):
    """The process dies where it comes to this step of enqueueing."""
    with monkeypatch.context() as patched:
        patched.setattr(f"mulligan.stores.mongo.enqueue.{step}", crash)
        with pytest.raises(asyncio.CancelledError):
            yield


@pytest.mark.parametrize("step", [*ARRIVING, "join_lane"])
async def test_the_last_arrival_counts_once_wherever_it_was_interrupted(
    store, another, tasks, monkeypatch, step
):
    one, two = await begin_gathering(store, 2)
    await store.commit([done(one, b"1")])
    with dying(monkeypatch, step):
        await store.commit([done(two, b"2")])
    assert await another.prune(-1, 100) == 1, "who has not arrived is kept"
    await another.promote(100)
    assert names(await claim(another, GATHERED, demand=5, worker=BOB)) == ["all"]
    assert await another.arrivals("all") == {0: b"1", 1: b"2"}
    await another.promote(100)
    assert names(await claim(another, GATHERED, demand=5, worker=BOB)) == []
    assert "owes" not in tasks.find_one({"_id": "m1"})["mulligan"]


@pytest.mark.parametrize("step", ARRIVING)
async def test_an_arrival_that_is_told_twice_starts_nothing_early(
    store, another, monkeypatch, step
):
    one, two, three = await begin_gathering(store, 3)
    with dying(monkeypatch, step):
        await store.commit([done(one)])
    for outcome in (done(one), done(two)):
        await store.commit([outcome])
        await another.promote(100)
    assert (await another.get("all")).awaits == 1
    assert names(await claim(another, GATHERED, worker=BOB)) == []
    await store.commit([done(three)])
    assert names(await claim(another, GATHERED, worker=BOB)) == ["all"]


@pytest.mark.parametrize(
    ("step", "after"), [("miss", 0), ("cancel", 0), ("cancel", 1), ("settled", 0), ("settled", 1)]
)
async def test_a_cancelled_member_cancels_upwards_wherever_that_was_interrupted(
    store, another, monkeypatch, step, after
):
    await store.enqueue([gathering(1, "top"), gathering(2, gather="top"), job("m", gather="all")])
    with dying(monkeypatch, step, after):
        await store.cancel(["m"], "no need")
    assert (await another.get("m")).status == "cancelled"
    await another.promote(100)
    await another.promote(100)
    assert (await another.get("all")).cancel_reason == "job m, which it awaits, was cancelled"
    assert (await another.get("top")).cancel_reason == "job all, which it awaits, was cancelled"


@pytest.mark.parametrize("move_dead", ["true", "false"])
async def test_a_purge_that_stopped_half_way_is_finished(
    store_url, clock, database, monkeypatch, move_dead
):
    async with handle(f"{store_url}&move_dead={move_dead}", clock) as store:
        [one, _two] = await begin_gathering(store, 2)
        await store.commit([dead(one)])
        with dying(monkeypatch, "miss"):
            await store.purge(["m0"])
        await store.promote(100)
        assert await store.get("m0") is None
        [cancelled] = (await store.page(Selection(status="cancelled"), 10)).jobs
        assert cancelled.cancel_reason == "job m0, which it awaits, was purged"
    for collection in ("tasks", "tasks_dlq"):
        assert database[collection].count_documents({"_id": "m0"}) == 0


async def test_what_arrived_is_deleted_with_a_dead_letter_that_gathered(store, database):
    [one] = await begin_gathering(store, 1)
    await store.commit([done(one)])
    await store.commit([dead(await start(store, GATHERED))])
    assert database["tasks_arrivals"].count_documents({}) == 1
    assert await store.purge(["all"]) == [True]
    assert database["tasks_arrivals"].count_documents({}) == 0


async def test_what_arrives_at_a_job_that_was_purged_does_not_count_for_the_next_of_its_id(
    store, monkeypatch
):
    [one] = await begin_gathering(store, 1)

    async def after_it_came_again(connection_, arrivals):
        monkeypatch.undo()
        assert await store.cancel(["all"], "begun anew") == [True]
        assert await store.purge(["all"]) == [True]
        assert await store.enqueue([gathering(1)]) == [("all", True)]
        await keep(connection_, arrivals)

    monkeypatch.setattr("mulligan.stores.mongo.gather.keep", after_it_came_again)
    assert await store.commit([done(one)]) == ["written"]
    assert (await store.get("all")).awaits == 1
    assert (await claim(store, GATHERED)).claims == []


async def test_a_refused_adoption_leaves_no_arrivals(store, database, clock):
    other = MemoryStore(clock=clock)
    [one, _two] = await begin_gathering(other, 2)
    await other.commit([done(one)])
    [waiting] = (await other.page(Selection(queue="gathered"), 10)).jobs
    handed = Adopted(waiting, [], await other.arrivals("all"))
    assert await store.adopt([handed]) == [True]
    assert await store.adopt([handed]) == [False]
    assert database["tasks_arrivals"].count_documents({}) == 1


async def test_other_programs_leave_a_gathering_job_alone_and_may_finish_its_members(
    store, tasks, clock
):
    await store.enqueue(
        [gathering(2), *(job(f"m{n}", gather="all", gather_index=n) for n in (0, 1))]
    )
    popped = [pop(tasks, clock.now)["_id"] for _ in (0, 1)]
    assert (sorted(popped), pop(tasks, clock.now)) == (["m0", "m1"], None)
    finish(tasks, "m0", clock.now)
    finish(tasks, "m1", clock.now)
    await store.promote(100)
    assert await store.arrivals("all") == {0: None, 1: None}
    assert pop(tasks, clock.now)["_id"] == "all"


async def test_a_gathering_job_that_another_program_put_back_goes_on_gathering(store, tasks, clock):
    [one] = await begin_gathering(store, 1)
    clock.advance(1)
    tasks.update_one({"_id": "all"}, {"$set": {"status": "processing"}})
    put_back(tasks, "all", clock.now, 0)
    await store.promote(100)
    assert names(await claim(store, GATHERED, Lane("gathered", "*", 1))) == []
    assert pop(tasks, clock.now) is None
    await store.commit([done(one)])
    assert names(await claim(store, GATHERED)) == ["all"]


async def test_members_that_another_program_spoilt_do_not_hide_others(
    store, tasks, clock, monkeypatch
):
    monkeypatch.setattr(repair, "SETTLED_AT_ONCE", 2)
    spoilt = [job(name, gather="all", gather_index=0) for name in ("a", "b")]
    member = job("c", gather="all", gather_index=0)
    await store.enqueue([gathering(1), *spoilt, member])
    tasks.update_many({"_id": {"$in": ["a", "b"]}}, {"$set": {"mulligan.gather": 5}})
    for name in ("a", "b", "c"):
        finish(tasks, name, clock.now)
    for _ in range(2):
        await store.promote(100)
    assert await store.arrivals("all") == {0: None}


@pytest.mark.parametrize("part", [10**6, 1], ids=["in the document", "beside it"])
@pytest.mark.parametrize("step", ["insert_where_free", "empty"])
async def test_a_producer_that_dies_leaves_a_gather_with_all_its_members(
    store, another, monkeypatch, step, part
):
    monkeypatch.setattr("mulligan.stores.mongo.outbox.PART", part)
    with producer_dying(monkeypatch, step):
        await begin_gathering(store, 3)
    await another.promote(100)
    claims = (await claim(another, FRESH, demand=5, worker=BOB)).claims
    assert {each.id for each in claims} == {"m0", "m1", "m2"}
    await another.commit([done(each) for each in claims])
    assert names(await claim(another, GATHERED, demand=5, worker=BOB)) == ["all"]
    assert [each.created for each in await store.enqueue([gathering(3)])] == [False]


async def test_a_producer_that_died_before_its_gather_was_stored_leaves_nothing(
    store, another, database, monkeypatch, clock
):
    monkeypatch.setattr("mulligan.stores.mongo.outbox.PART", 1)
    with producer_dying(monkeypatch, "insert"):
        await begin_gathering(store, 3)
    assert (await another.page(Selection(), 10)).jobs == []
    await another.promote(100)
    assert database["tasks_outbox"].count_documents({}) == 3, "the gather may be on its way"
    clock.advance(3600)
    await another.promote(100)
    assert database["tasks_outbox"].count_documents({}) == 0


async def test_who_asks_for_a_gather_again_finds_the_members_stored(store, another, monkeypatch):
    with producer_dying(monkeypatch, "insert_where_free"):
        await begin_gathering(store, 2)
    again = [gathering(2), *(job(f"m{n}", gather="all", gather_index=n) for n in range(2))]
    assert [each.created for each in await another.enqueue(again)] == [False] * 3
    assert len((await claim(another, FRESH, demand=5, worker=BOB)).claims) == 2
