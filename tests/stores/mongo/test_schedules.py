"""Changes of schedules that several processes carry out, some of which stop in the middle."""

import asyncio

import pytest

from mulligan.core.page import Selection
from mulligan.core.reschedule import Reschedule
from mulligan.stores.mongo import schedules
from mulligan.stores.mongo.book import GRACE
from mulligan.stores.mongo.document import PLACING, SECOND
from tests.contract.builders import FRESH, done, job, start
from tests.stores.mongo.steps import crash

A, B, C = (b'{"n":%d}' % n for n in range(3))
FIRST = Reschedule("a", None, A, place=(job("t1", delay=60), job("t2", delay=90)))
EDIT = Reschedule("a", A, B, ("t1", "t2"), (job("other", delay=30),))


class Stop:
    """Stops who comes to a step of the store, once, until it is told to go on."""

    def __init__(self, monkeypatch, name):
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self.task = None
        self._step, self._stops = getattr(schedules, name), True
        monkeypatch.setattr(schedules, name, self.step)

    async def step(self, *args):
        if self._stops:
            self._stops = False
            self.reached.set()
            await self.go.wait()
        return await self._step(*args)


@pytest.fixture(params=["insert_where_free", "write"])
async def stopped(request, store, monkeypatch):
    """A process that has seen that a change is under way, and stops before it places ticks."""
    stop = Stop(monkeypatch, request.param)
    stop.task = asyncio.ensure_future(store.reschedule(FIRST))
    await asyncio.wait_for(stop.reached.wait(), 10)
    return stop


async def ids(store):
    return sorted(each.id for each in (await store.page(Selection(), 100)).jobs)


async def test_a_process_that_wakes_after_an_edit_places_no_tick_of_before(
    store, another, stopped, clock
):
    assert await another.reschedule(EDIT)
    stopped.go.set()
    assert await stopped.task
    assert await store.schedules() == {"a": B}
    assert await ids(store) == ["other"]
    clock.advance(31)
    assert (await start(store)).id == "other"


async def test_a_process_that_wakes_when_the_tick_ran_and_was_forgotten_runs_it_not_again(
    store, another, stopped, clock
):
    await another.promote(100)
    clock.advance(61)
    await another.commit([done(await start(another))])
    await another.purge(["t1"])
    stopped.go.set()
    assert await stopped.task
    assert await ids(store) == ["t2"]


async def test_one_that_wakes_beside_another_leaves_the_ticks_placed(
    store, another, stopped, clock
):
    await another.promote(100)
    stopped.go.set()
    assert await stopped.task
    assert await ids(store) == ["t1", "t2"]
    clock.advance(91)
    assert await store.depth(FRESH, 9) == 2


async def test_two_that_stopped_do_not_place_for_each_other(store, another, stopped, monkeypatch):
    late = Stop(monkeypatch, "write")
    helping = asyncio.ensure_future(another.promote(100))
    await asyncio.wait_for(late.reached.wait(), 10)
    assert await another.reschedule(EDIT)
    stopped.go.set()
    assert await stopped.task
    late.go.set()
    await helping
    assert await ids(store) == ["other"]


async def test_what_a_dead_process_left_of_an_old_change_does_not_stand_in_a_ticks_way(
    store, another, monkeypatch, tasks, clock
):
    stop = Stop(monkeypatch, "insert_where_free")
    late = asyncio.ensure_future(store.reschedule(FIRST))
    await asyncio.wait_for(stop.reached.wait(), 10)
    assert await another.reschedule(EDIT)
    with monkeypatch.context() as patched:
        patched.setattr(schedules.Schedules, "is_under_way", crash)
        stop.go.set()
        with pytest.raises(asyncio.CancelledError):
            await late
    assert {doc["mulligan"]["lane"] for doc in tasks.find({"_id": {"$regex": "^t"}})} == {PLACING}
    assert await another.reschedule(Reschedule("a", B, C, ("other",), FIRST.place))
    assert (await store.get("t1")).status == "pending"
    clock.advance(91)
    assert await store.depth(FRESH, 9) == 2
    assert tasks.count_documents({"mulligan.lane": PLACING}) == 0


async def test_what_a_dead_process_left_of_an_old_change_is_swept_away(
    store, another, monkeypatch, clock
):
    stop = Stop(monkeypatch, "insert_where_free")
    late = asyncio.ensure_future(store.reschedule(FIRST))
    await asyncio.wait_for(stop.reached.wait(), 10)
    assert await another.reschedule(EDIT)
    with monkeypatch.context() as patched:
        patched.setattr(schedules.Schedules, "is_under_way", crash)
        stop.go.set()
        with pytest.raises(asyncio.CancelledError):
            await late
    clock.advance(1)
    await another.promote(100)
    assert await ids(store) == ["other"]


async def test_a_change_that_was_left_with_ticks_in_no_lane_is_finished(
    store, another, monkeypatch, clock
):
    with monkeypatch.context() as patched:
        patched.setattr(schedules, "write", crash)
        with pytest.raises(asyncio.CancelledError):
            await store.reschedule(FIRST)
    await another.promote(100)
    assert await ids(store) == ["t1", "t2"]
    clock.advance(91)
    assert await store.depth(FRESH, 9) == 2


async def test_a_tick_that_names_a_limit_joins_its_line_whoever_finishes_the_change(
    store, another, monkeypatch, clock
):
    """The book must not be told of it before: it would find it in no line, and forget it."""
    with monkeypatch.context() as patched:
        patched.setattr(schedules, "write", crash)
        with pytest.raises(asyncio.CancelledError):
            await store.reschedule(Reschedule("a", None, A, place=(job("t1", limits='{"k":1}'),)))
    clock.advance(GRACE / SECOND)
    await another._book.tell_left(await another._connection.now())
    await another.promote(100)
    assert (await start(another)).id == "t1"
