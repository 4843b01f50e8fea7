"""Reading documents, whatever other programs have put there."""

import msgspec
import pytest
from bson import Int64, ObjectId

from mulligan.core.page import Selection
from mulligan.stores.mongo.document import LAST_DATE, SECOND
from tests.contract.builders import ANYONE, RETRY, begin, dead, jobs
from tests.stores.mongo.steps import moment, plain


async def test_whatever_size_the_server_keeps_a_number_in_it_comes_out_as_one(store, tasks):
    [first] = await begin(store, *jobs("a"))
    await store.commit([dead(first)])
    wide = {name: Int64(2) for name in ("priority", "replay", "snoozes", "number")}
    wide |= {"token": Int64(2**40), "history.0.number": Int64(1)}
    fields = {f"mulligan.{name}": value for name, value in wide.items()}
    tasks.update_one({"_id": "a"}, {"$set": {**fields, "attempts": Int64(1)}})
    read = await store.get("a"), await store.history("a")
    assert msgspec.json.encode(read)
    assert read[0].token == 2**40


ODD_TIMES = [2**62, -(2**62), 1e300, float("nan"), "soon", True, [1]]


@pytest.mark.parametrize("at", ODD_TIMES, ids=repr)
async def test_a_time_that_no_calendar_has_is_shown_as_none(store, tasks, at):
    [first] = await begin(store, *jobs("a"))
    await store.commit([dead(first)])
    names_ = ("created_at", "started_at", "ended_at", "last_retry_at", "expires_at")
    for name in names_:
        before = tasks.find_one({"_id": "a"})
        tasks.update_one({"_id": "a"}, {"$set": {f"mulligan.{name}": at}})
        read = await store.get("a")
        assert read.status == "failed"
        times = (read.due, read.created_at, read.started_at, read.ended_at, read.last_retry_at)
        assert all(abs(each or 0) < LAST_DATE / SECOND for each in times), name
        tasks.replace_one({"_id": "a"}, before)


ODD_PRIVATE = {
    "an empty list": [],
    "a list of numbers": [1, 2],
    "a list of documents": [{"number": 5}, {"lane": "x"}],
    "a list of lists": [[{"number": 4}]],
    "a number in a list": {"number": [1, 2]},
    "a number and text in a list": {"number": [10**6, "x"]},
    "a number": 7,
    "text": "mine",
    "a document": {"a": 1},
}


@pytest.mark.parametrize("where", ["tasks", "tasks_dlq"])
async def test_whatever_another_program_calls_mulligan_its_document_is_listed_once(
    moving, database, clock, where
):
    status = "pending" if where == "tasks" else "failed"
    for number, (name, private) in enumerate(ODD_PRIVATE.items()):
        for key in (name, number, {"a": number}, ObjectId(number.to_bytes(12, "big"))):
            database[where].insert_one(plain(clock, key, status=status, mulligan=private))
    stored = [str(each["_id"]) for each in database[where].find()]
    await moving.enqueue(jobs("a", "b", "c"))
    for limit in (1, 5, 100):
        page = await moving.page(Selection(), limit)
        found = page.jobs
        while page.after is not None:
            page = await moving.page(Selection(), limit, page.after)
            found += page.jobs
        assert sorted(each.id for each in found) == sorted([*stored, "a", "b", "c"])
    said = {each.id: each.last_failure_reason or "" for each in found}
    assert "use another name" in said["a list of documents"]


async def test_readers_see_plain_inserts_before_any_claim(store, tasks, clock):
    tasks.insert_many([plain(clock, "a"), plain(clock, "b", status="done")])
    tasks.insert_one(plain(clock, "c", attempts=2, next_retry_at=moment(clock.now + 9)))
    assert (await store.get("a")).status == "pending"
    found = (await store.page(Selection(), 10)).jobs
    assert {each.id: each.status for each in found} == {
        "a": "pending",
        "b": "done",
        "c": "pending",
    }
    stats = await store.stats()
    assert {each.lane: (each.ready, each.delayed) for each in stats.lanes} == {
        ANYONE: (1, 0),
        RETRY: (0, 1),
    }
    assert stats.ended == {("default", "done"): 1}


async def test_a_history_that_another_program_has_written_to_is_shown_as_far_as_it_goes(
    store, tasks
):
    [first] = await begin(store, *jobs("a"))
    await store.commit([dead(first, "no luck")])
    tasks.update_one({"_id": "a"}, {"$push": {"mulligan.history": 7}})
    assert [attempt.message for attempt in await store.history("a")] == ["no luck"]
    tasks.update_one({"_id": "a"}, {"$set": {"mulligan.history": "x"}})
    assert await store.history("a") == []
