"""Dead letters in a collection of their own."""

import asyncio

import pytest
from bson import Int64

from mulligan.core.page import Selection
from mulligan.stores.mongo import bulk_write
from mulligan.stores.mongo.dead_letters import move_dead
from tests.contract.builders import again, dead, done, job, jobs, start
from tests.stores.mongo.steps import crash, fail, held_and_cancelled


async def test_a_replayed_letter_keeps_the_numbers_of_other_programs_as_they_wrote_them(
    moving, database
):
    await fail(moving, "a")
    [letter] = database["tasks_dlq"].find()
    for key, more in (("a", {}), ("b", {"mulligan": None})):
        kept = letter | {"_id": key, "count": Int64(7)} | more
        database["tasks_dlq"].replace_one({"_id": key}, kept, upsert=True)
    assert await moving.replay(["a", "b"]) == [True, True]
    assert [type(each["count"]) for each in database["tasks"].find()] == [Int64, Int64]


async def test_dead_letters_can_be_moved_away(moving, database, tasks):
    await fail(moving, "a", "b")
    assert tasks.count_documents({}) == 0
    assert database["tasks_dlq"].count_documents({"status": "failed"}) == 2
    assert (await moving.get("a")).last_failure_reason == "ValueError: boom"
    assert len(await moving.history("a")) == 1
    found = await moving.page(Selection(status="failed"), 10)
    assert [each.id for each in found.jobs] == ["b", "a"]
    assert (await moving.stats()).ended == {("default", "failed"): 2}
    assert await moving.enqueue(jobs("a")) == [("a", False)]
    assert await moving.purge(["b"]) == [True]
    assert await moving.get("b") is None


async def test_a_dead_letter_is_written_though_it_was_moved_before_we_looked(moving, between):
    first, second = await held_and_cancelled(moving, moving)

    async def moved():
        assert await move_dead(moving._connection, ["a"]) == 1

    between(moved)
    assert await moving.commit([dead(first), done(second)]) == ["written", "stale"]


async def test_a_moved_letter_can_be_replayed(moving, database, tasks):
    await fail(moving, "a")
    assert await moving.replay(["a", "a"]) == [True, False]
    assert database["tasks_dlq"].count_documents({}) == 0
    replayed = await start(moving)
    assert (replayed.id, replayed.replay, replayed.retry_count) == ("a", 1, 0)
    await moving.commit([dead(replayed)])
    assert len(await moving.history("a")) == 2


async def test_a_moved_letter_whose_key_is_taken_stays_where_it_is(moving, database):
    await moving.enqueue([job("a", unique_key="k")])
    await moving.commit([dead(await start(moving))])
    await moving.enqueue([job("b", unique_key="k")])
    assert await moving.replay(["a"]) == [False]
    assert (await moving.get("a")).status == "failed"
    assert database["tasks_dlq"].count_documents({"status": "failed"}) == 1


async def test_a_move_that_stopped_half_way_is_finished(moving, database, tasks, monkeypatch):
    monkeypatch.setattr("mulligan.stores.mongo.commit.move_dead", crash)
    with pytest.raises(asyncio.CancelledError):
        await fail(moving, "a")
    monkeypatch.undo()
    assert tasks.count_documents({"status": "failed"}) == 1
    await moving.promote(100)
    assert tasks.count_documents({}) == 0
    database["tasks_dlq"].update_one({"_id": "a"}, {"$set": {"status": "pending"}})
    await moving.promote(100)
    assert database["tasks_dlq"].count_documents({}) == 0
    assert tasks.count_documents({"_id": "a", "status": "pending"}) == 1


async def test_a_letter_that_is_replayed_while_it_is_moved_leaves_no_copy(
    moving, database, tasks, monkeypatch
):
    async def replayed_after_the_copy(collection, statements):
        written = await bulk_write.write(collection, statements)
        if collection.name == "tasks_dlq":
            monkeypatch.undo()
            assert await moving.replay(["a"]) == [True]
        return written

    monkeypatch.setattr("mulligan.stores.mongo.dead_letters.write", replayed_after_the_copy)
    await fail(moving, "a")
    assert database["tasks_dlq"].count_documents({}) == 0
    assert (await moving.page(Selection(status="failed"), 10)).jobs == []
    assert tasks.count_documents({"_id": "a", "status": "pending"}) == 1


async def test_a_letter_that_is_replayed_before_it_is_copied_leaves_no_copy(
    moving, database, tasks, monkeypatch
):
    async def replayed_before_the_copy(collection, statements):
        monkeypatch.undo()
        assert await moving.replay(["a"]) == [True]
        await moving.commit([again(await start(moving), delay=0)])
        return await bulk_write.write(collection, statements)

    monkeypatch.setattr("mulligan.stores.mongo.dead_letters.write", replayed_before_the_copy)
    await fail(moving, "a")
    assert database["tasks_dlq"].count_documents({}) == 0
    assert tasks.count_documents({"_id": "a", "status": "pending"}) == 1


async def test_a_letter_whose_move_stopped_after_the_copy_may_be_replayed(
    moving, database, tasks, monkeypatch
):
    async def copies_and_dies(collection, statements):
        await bulk_write.write(collection, statements)
        raise asyncio.CancelledError

    monkeypatch.setattr("mulligan.stores.mongo.dead_letters.write", copies_and_dies)
    with pytest.raises(asyncio.CancelledError):
        await fail(moving, "a")
    monkeypatch.undo()
    assert (database["tasks_dlq"].count_documents({}), tasks.count_documents({})) == (1, 1)
    assert await moving.replay(["a"]) == [True]
    assert database["tasks_dlq"].count_documents({}) == 0
    await moving.commit([dead(await start(moving))])
    assert (database["tasks_dlq"].count_documents({}), tasks.count_documents({})) == (1, 0)
