"""Unique keys between the stages of a chain."""

import asyncio
from contextlib import contextmanager

import pytest

from mulligan.core.job import Adopted
from mulligan.core.page import Selection
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import BOB, claim, dead, done, job, names, start
from tests.store_kit import handle
from tests.stores.mongo.steps import crash, finish


class Tasks:
    """The tasks as a process sees them that notes its writes and dies before one too many."""

    def __init__(self, tasks, most=99):
        self.tasks = tasks
        self.most = most
        self.writes = []

    def __getattr__(self, name):
        call = getattr(self.tasks, name)
        if name not in ("insert_many", "insert_one", "bulk_write", "update_many", "delete_many"):
            return call

        def write(*arguments, **options):
            if len(self.writes) == self.most:
                crash()
            self.writes.append(name)
            return call(*arguments, **options)

        return write


@contextmanager
def dying_after(store, writes):
    """The process of this store dies after so many writes to the tasks."""
    tasks = store._connection.tasks
    store._connection.tasks = Tasks(tasks, writes)
    with pytest.raises(asyncio.CancelledError):
        yield
    store._connection.tasks = tasks


def stage(number):
    """A later job of chain a, with the key that the chain was enqueued with."""
    return job(f"a.{number}", unique_key="k", unique_in="default")


async def begin_chain(store):
    """The first job of chain a, started."""
    await store.enqueue([job("a", unique_key="k")])
    return await start(store)


async def ask_with_the_key(store):
    """The answer to one who enqueues another chain with the same key."""
    [answer] = await store.enqueue([job("b", unique_key="k")])
    return answer


async def test_a_key_costs_a_chain_no_further_write(store, another):
    writes = []
    for name, key in (("a", None), ("b", "k")):
        tasks = store._connection.tasks = Tasks(another._connection.tasks)
        await store.enqueue([job(name, unique_key=key)])
        await store.commit([done(await start(store), b"1", job(f"{name}.2", unique_key=key))])
        await store.commit([done(await start(store))])
        writes.append(tasks.writes)
    assert writes[0] == writes[1]


@pytest.mark.parametrize(("writes", "others"), [(1, None), (1, 1), (1, 2), (1, 3), (2, None)])
async def test_a_chain_keeps_its_key_wherever_the_step_to_its_next_stage_was_interrupted(
    store, another, tasks, writes, others
):
    first = await begin_chain(store)
    with dying_after(store, writes):
        await store.commit([done(first, b"1", stage(2))])
    if others is not None:
        with dying_after(store, others):
            await ask_with_the_key(store)
    assert await ask_with_the_key(another) == ("a.2", False)
    await another.promote(100)
    assert names(await claim(another, demand=5, worker=BOB)) == ["a.2"]
    assert {"outbox", "kept_key"}.isdisjoint(tasks.find_one({"_id": "a"})["mulligan"])
    assert tasks.count_documents({}) == 2


@pytest.mark.parametrize("writes", range(6))
async def test_a_stage_may_end_before_the_one_before_it_knows_that_it_was_stored(
    store, another, writes
):
    first = await begin_chain(store)
    with dying_after(store, 2):
        await store.commit([done(first, b"1", stage(2))])
    outcome = done(await start(another, worker=BOB), b"2", stage(3))
    with dying_after(store, writes):
        await store.commit([outcome])
    assert (await ask_with_the_key(another)).id == ("a.2" if writes < 4 else "a.3")
    assert set(await another.commit([outcome])) <= {"written", "already"}
    assert await ask_with_the_key(another) == ("a.3", False)
    await another.promote(100)
    last = await start(another, worker=BOB)
    assert (last.id, names(await claim(another, worker=BOB))) == ("a.3", [])
    await another.commit([done(last)])
    assert await ask_with_the_key(another) == ("b", True)


async def test_a_worker_is_woken_for_a_stage_that_one_who_wanted_its_key_has_stored(store, another):
    first = await begin_chain(another)
    await claim(store, worker=BOB)
    waiting = asyncio.create_task(store.wait(BOB, 30))
    with dying_after(another, 1):
        await another.commit([done(first, b"1", stage(2))])
    assert await ask_with_the_key(another) == ("a.2", False)
    await another.promote(100)
    await asyncio.wait_for(waiting, 10)
    assert names(await claim(store, worker=BOB)) == ["a.2"]


async def test_finished_jobs_whose_next_ones_want_each_others_keys_do_not_wait_for_each_other(
    store, another
):
    await store.enqueue([job("a", unique_key="k"), job("c", unique_key="l")])
    one, two = (await claim(store, demand=2)).claims
    after_one = [job("a.2", unique_key="k"), job("x", unique_key="l")]
    after_two = [job("c.2", unique_key="l"), job("y", unique_key="k")]
    for outcome in (done(one, b"1", *after_one), done(two, b"2", *after_two)):
        with dying_after(store, 1):
            await store.commit([outcome])
    await another.promote(100)
    assert sorted(names(await claim(another, demand=5, worker=BOB))) == ["a.2", "c.2"]


async def test_a_stage_is_stored_without_the_key_that_another_program_gave_away(
    store, another, tasks
):
    await store.enqueue([job("x", unique_key="k")])
    await store.commit([dead(await start(store))])
    first = await begin_chain(store)
    with dying_after(store, 1):
        await store.commit([done(first, b"1", stage(2))])
    tasks.update_one({"_id": "x"}, {"$set": {"status": "pending"}})
    await another.promote(100)
    assert await ask_with_the_key(another) == ("x", False)
    claims = (await claim(another, demand=5, worker=BOB)).claims
    second = next(each for each in claims if each.id == "a.2")
    await another.commit([done(second, b"2", stage(3))])
    assert (await another.get("a.3")).unique_key is None
    assert await ask_with_the_key(another) == ("x", False)


@pytest.mark.parametrize("move_dead", ["true", "false"])
async def test_a_key_is_free_for_a_replay_once_another_program_has_finished_its_job(
    store_url, clock, tasks, move_dead
):
    async with handle(f"{store_url}&move_dead={move_dead}", clock) as store:
        await store.enqueue([job("a", unique_key="k")])
        await store.commit([dead(await start(store))])
        await store.enqueue([job("other", unique_key="k")])
        assert await store.replay(["a"]) == [False]
        finish(tasks, "other", clock.now)
        assert await store.replay(["a"]) == [True]
        assert await ask_with_the_key(store) == ("a", False)


async def test_whatever_ends_a_job_lets_go_of_its_key_in_the_same_write(store, tasks, clock):
    await store.enqueue([job(name, unique_key=name) for name in ("done", "dead")])
    one, two = (await claim(store, demand=2)).claims
    await store.commit([done(one), dead(two)])
    await store.enqueue([job("cancelled", unique_key="c"), job("late", unique_key="l", expires=1)])
    assert tasks.count_documents({"mulligan.kept_key": {"$exists": True}}) == 2
    await store.cancel(["cancelled"], "no need")
    clock.advance(1)
    assert names(await claim(store)) == []
    assert tasks.count_documents({"mulligan.kept_key": {"$exists": True}}) == 0


@pytest.mark.parametrize("status", ["failed", "odd", None])
async def test_a_job_that_is_no_longer_pending_or_running_keeps_no_key(store, tasks, status):
    await begin_chain(store)
    tasks.update_one({"_id": "a"}, {"$set": {"status": status}})
    assert await ask_with_the_key(store) == ("b", True)


async def test_a_key_is_free_for_next_and_adopted_jobs_once_another_program_has_finished_its_job(
    store, tasks, clock
):
    other = MemoryStore(clock=clock)
    await other.enqueue([job("adopted", unique_key="l")])
    await store.enqueue([job("x", unique_key="k"), job("y", unique_key="l"), job("a")])
    *_, last = (await claim(store, demand=3)).claims
    for name in ("x", "y"):
        finish(tasks, name, clock.now)
    await store.commit([done(last, b"1", job("a.2", unique_key="k"))])
    assert await ask_with_the_key(store) == ("a.2", False)
    [adopted] = (await other.page(Selection(), 10)).jobs
    assert await store.adopt([Adopted(adopted, [])]) == [True]
