"""What only the MongoDB store does: it shares its documents with other programs."""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import bson
import msgspec
import pymongo
import pytest
from bson import Binary, Int64, ObjectId, Regex
from bson.codec_options import CodecOptions
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from msgspec.structs import replace
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, OperationFailure

from mulligan.core.backoff import Exponential
from mulligan.core.counts import Count
from mulligan.core.decide import decide
from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.core.job import Adopted, Claim, Lease, decode_call, decode_policy, encode
from mulligan.core.lane import Lane
from mulligan.core.outcome import Later, Lost, Outcome, Returned
from mulligan.core.page import Selection
from mulligan.core.plan import Cap
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from mulligan.stores.memory import MemoryStore
from mulligan.stores.mongo import MongoStore, base, colliding, schema
from mulligan.stores.mongo.base import Change, line_of, statements
from mulligan.stores.mongo.codec import TO_READ, TO_WRITE
from mulligan.stores.mongo.dead import move_dead
from mulligan.stores.mongo.foreign import MalformedError, private_fields
from mulligan.stores.mongo.gathering import Gathering, keep
from mulligan.stores.mongo.times import LAST_DATE, SECOND
from mulligan.stores.mongo.views import job_of
from tests.contract.making import (
    ANN,
    ANYONE,
    BOB,
    FRESH,
    REAPER,
    RETRY,
    again,
    begin,
    body,
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
from tests.history import InMemory, check, recorded
from tests.reuse import reused_url
from tests.store_kit import fresh_url, handle, require

TEN_MINUTES = 600
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "stores" / "mongodb.md"


@pytest.fixture
async def store_url(request, tmp_path):
    """The URL of an empty store; new if the test opens it itself."""
    require("mongo")
    reuse = "store" in request.fixturenames
    async with reused_url("mongo") if reuse else fresh_url("mongo", tmp_path) as url:
        yield url


@pytest.fixture
def database(store_url):
    """The same database as another program sees it."""
    connected: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(
        store_url, tz_aware=True
    )
    with connected as client:
        yield client[urlsplit(store_url).path.strip("/")]


@pytest.fixture
def tasks(database):
    return database["tasks"]


RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


def without_outcome(document):
    """The document as bytes, but for what setting it aside changes."""
    return bson.encode({k: v for k, v in document.items() if k not in ("status", "error")})


def moment(seconds):
    return datetime.fromtimestamp(seconds, UTC)


def plain(clock, name, **more):
    """A document as another program inserts it."""
    return {
        "_id": name,
        "payload": {"task": "ask"},
        "status": "pending",
        "created_at": moment(clock.now),
        "updated_at": moment(clock.now),
        "attempts": 0,
        "next_retry_at": None,
        "backoff_policy": {"base_sec": 5, "factor": 2.0, "max_sec": 1800, "jitter": "full"},
        "error": None,
        **more,
    }


def pop(tasks, now):
    """Take a document as another program does."""
    return tasks.find_one_and_update(
        {
            "status": "pending",
            "$or": [{"next_retry_at": None}, {"next_retry_at": {"$lte": moment(now)}}],
        },
        {"$set": {"status": "processing", "updated_at": moment(now)}},
        sort=[("created_at", 1)],
    )


def put_back(tasks, key, now, delay):
    """Fail an attempt as another program does."""
    error = {"message": "boom", "code": "E1", "at": moment(now)}
    fields = {
        "status": "pending",
        "updated_at": moment(now),
        "next_retry_at": moment(now + delay),
        "error": error,
    }
    tasks.update_one({"_id": key}, {"$set": fields, "$inc": {"attempts": 1}})


def finish(tasks, key, now, status="done"):
    tasks.update_one({"_id": key}, {"$set": {"status": status, "updated_at": moment(now)}})


# -- documents of other programs -------------------------------------------------------------


async def test_a_plain_insert_is_a_job_in_the_default_queue_for_any_region(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", payload={"task": "ask", "args": [1], "kwargs": {"b": 2}}))
    claimed = await start(store, ANYONE)
    assert (claimed.id, claimed.task, claimed.queue, claimed.region) == (
        "a",
        "ask",
        "default",
        "*",
    )
    call = decode_call(claimed.body)
    assert (call.args, call.kwargs) == ([1], {"b": 2})
    assert await store.commit([done(claimed, b'"yes"')]) == ["written"]
    assert tasks.find_one({"_id": "a"})["status"] == "done"


async def test_a_document_with_an_object_id_runs_under_its_hexadecimal_name(store, tasks, clock):
    document = plain(clock, "a")
    del document["_id"]
    key = tasks.insert_one(document).inserted_id
    claimed = await start(store, ANYONE)
    assert claimed.id == str(key)
    assert (await store.get(str(key))).status == "processing"
    assert await store.commit([again(claimed, 5.0)]) == ["written"]
    assert tasks.find_one({"_id": key})["attempts"] == 1
    assert await store.cancel([str(key)], "enough") == [True]


async def test_plain_inserts_start_in_the_order_of_their_creation(store, tasks, clock):
    later = moment(clock.now - 1)
    tasks.insert_many([plain(clock, "b", created_at=later), plain(clock, "c")])
    tasks.insert_one(plain(clock, "a", created_at=moment(clock.now - 2)))
    assert names(await claim(store, ANYONE, demand=5)) == ["a", "b", "c"]


async def test_a_plain_insert_with_a_date_waits_for_it(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", next_retry_at=moment(clock.now + 7)))
    assert (await claim(store, ANYONE)).again_in == 7.0
    clock.advance(7)
    assert names(await claim(store, ANYONE)) == ["a"]


async def test_a_document_with_little_in_it_is_still_a_job(store, tasks):
    tasks.insert_one({"_id": "a", "payload": {"task": "ask"}, "status": "pending"})
    claimed = await start(store, ANYONE)
    assert decode_call(claimed.body).args == []
    document = tasks.find_one({"_id": "a"})
    assert document["attempts"] == 0
    assert document["next_retry_at"] is None
    assert document["created_at"] == document["updated_at"]


async def test_a_payload_without_args_is_one_argument(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", payload={"task": "ask", "city": "Ulm", "at": moment(0)}))
    [argument] = decode_call((await start(store, ANYONE)).body).args
    assert argument == {"task": "ask", "city": "Ulm", "at": "1970-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, (5.0, 2.0, 1800.0, "full")),
        ({}, (5.0, 2.0, 1800.0, "full")),
        ({"base_sec": 1, "jitter": None}, (1.0, 2.0, 1800.0, "none")),
        ({"factor": 3, "max_sec": 9, "jitter": "decorrelated"}, (5.0, 3.0, 9.0, "decorrelated")),
        ({"jitter": "gaussian"}, (5.0, 2.0, 1800.0, "none")),
        ({"base_sec": 50, "max_sec": 10, "jitter": "none"}, (10.0, 2.0, 10.0, "none")),
    ],
)
async def test_what_a_policy_leaves_out_has_a_meaning(store, tasks, clock, policy, expected):
    tasks.insert_one(plain(clock, "a", backoff_policy=policy))
    retry = decode_policy((await start(store, ANYONE)).body).retry
    backoff = retry.backoff
    assert isinstance(backoff, Exponential)
    assert (backoff.base, backoff.factor, backoff.max, backoff.jitter) == expected
    assert retry.max_retries == 10


async def test_a_document_may_give_its_own_number_of_retries(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", max_retries=2.0))
    assert decode_policy((await start(store, ANYONE)).body).retry.max_retries == 2


async def test_the_default_task_runs_what_names_none(store_url, tasks, clock):
    async with handle(store_url + "&default_task=sweep", clock) as store:
        tasks.insert_one(plain(clock, "a", payload={"room": 5}))
        tasks.insert_one(plain(clock, "b", payload="text"))
        claimed = (await claim(store, ANYONE, demand=2)).claims
    assert [each.task for each in claimed] == ["sweep", "sweep"]
    assert [decode_call(each.body).args for each in claimed] == [[{"room": 5}], ["text"]]


MALFORMED = {
    "a task that is no text": {"payload": {"task": {"$gt": ""}}},
    "a task with control characters": {"payload": {"task": "a\nb"}},
    "args that are no list": {"payload": {"task": "ask", "args": 5}},
    "a payload that is no JSON": {"payload": {"task": "ask", "args": [Regex("a")]}},
    "text that is no JSON": {"payload": {"task": "ask", "json": "{"}},
    "text that is too deep": {"payload": {"task": "ask", "json": "[" * 202 + "]" * 202}},
    "text that is far too deep": {"payload": {"task": "ask", "json": "[" * 9000 + "]" * 9000}},
    "attempts that are text": {"attempts": "three"},
    "attempts below nothing": {"attempts": -1},
    "attempts in parts": {"attempts": 1.5},
    "a date that is text": {"next_retry_at": "tomorrow"},
    "a creation that is text": {"created_at": "today"},
    "a policy that is a list": {"backoff_policy": [1, 2]},
    "a base that is text": {"backoff_policy": {"base_sec": "5"}},
    "a base below nothing": {"backoff_policy": {"base_sec": -5}},
    "a key of its own kind": {"_id": 7},
    "a key that is a document": {"_id": {"a": 1}},
    "a key with control characters": {"_id": "a\nb"},
    "a key that is too long": {"_id": "a" * 129},
    "private fields that are text": {"mulligan": "mine"},
    "private fields that are a list": {"mulligan": [{"line": "x"}, {}]},
    "attempts that are no number": {"attempts": float("nan")},
    "attempts without end": {"attempts": float("inf")},
    "retries that are no number": {"max_retries": float("nan")},
    "retries without end": {"max_retries": float("inf")},
    "a base that is no number": {"backoff_policy": {"base_sec": float("nan")}},
    "a base without end": {"backoff_policy": {"base_sec": float("inf"), "max_sec": float("inf")}},
    "JSON that cannot be read": {"payload": {"task": "ask", "json": "oops"}},
    "JSON that is too deep": {"payload": {"task": "ask", "json": "[" * 100_000}},
    "JSON that is deep": {"payload": {"task": "ask", "json": "[" * 5000 + "]" * 5000}},
}


@pytest.mark.parametrize("fault", MALFORMED)
async def test_a_malformed_document_is_set_aside_and_holds_up_nothing(store, tasks, clock, fault):
    document = plain(clock, "bad", ours=1) | {"created_at": moment(0)} | MALFORMED[fault]
    tasks.insert_one(document)
    [before] = tasks.with_options(RAW).find()
    tasks.insert_one(plain(clock, "good"))
    assert names(await claim(store, ANYONE, demand=5)) == ["good"]
    [bad] = tasks.with_options(RAW).find({"status": "failed"})
    assert bad["error"]["code"] == "malformed"
    assert bad["error"]["message"].startswith("malformed: ")
    assert list(bad) == list(before)
    assert without_outcome(bad) == without_outcome(before)
    assert names(await claim(store, ANYONE, demand=5)) == []


@pytest.mark.parametrize("field", ["created_at", "next_retry_at"])
@pytest.mark.parametrize("at", [300_000_000_000_000, -70_000_000_000_000])
def test_a_date_outside_of_the_years_1_to_9999_can_be_read_and_is_a_reason(clock, field, at):
    """By hand: the server of these tests does not store such dates."""
    written = bson.encode(plain(clock, "a") | {field: DatetimeMS(at)})
    document = bson.decode(written, TO_READ)
    with pytest.raises(MalformedError, match=field):
        private_fields(document, None, 0, 1)
    assert field in str(job_of(document, None, 0).last_failure_reason)
    assert bson.encode(document) == written


ODD_KEYS = [{"a": 1}, 7, Int64(2**40), Binary(b"x")]


@pytest.mark.parametrize("key", ODD_KEYS, ids=repr)
@pytest.mark.parametrize("status", ["pending", "processing"])
async def test_a_document_like_ours_under_another_kind_of_key_is_set_aside(
    store, tasks, clock, key, status
):
    await store.enqueue(jobs("a"))
    copy = tasks.find_one_and_delete({"_id": "a"})
    copy["mulligan"] |= {"worker": "gone"} if status == "processing" else {}
    tasks.insert_one(copy | {"_id": key, "status": status})
    [before] = tasks.with_options(RAW).find()
    await store.enqueue(jobs("good"))
    assert names(await claim(store, demand=5)) == ["good"]
    assert await store.reclaim(10, REAPER) == []
    [bad] = tasks.with_options(RAW).find({"status": "failed"})
    assert bad["error"]["message"].startswith("malformed: _id ")
    assert without_outcome(bad) == without_outcome(before)


async def test_numbers_of_64_bits_in_a_payload_are_numbers(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", payload={"task": "ask", "args": [2**40, Int64(7)]}))
    assert decode_call((await start(store, ANYONE)).body).args == [2**40, 7]


async def test_whatever_size_the_server_keeps_a_number_in_it_comes_out_as_one(store, tasks):
    [first] = await begin(store, *jobs("a"))
    await store.commit([dead(first)])
    wide = {name: Int64(2) for name in ("priority", "replay", "snoozes", "place", "key_limit")}
    wide |= {"token": Int64(2**40), "history.0.number": Int64(1)}
    fields = {f"mulligan.{name}": value for name, value in wide.items()}
    tasks.update_one({"_id": "a"}, {"$set": {**fields, "attempts": Int64(1)}})
    read = await store.get("a"), await store.history("a")
    assert msgspec.json.encode(read)
    assert read[0].token == 2**40


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


ODD_TIMES = [2**62, -(2**62), 1e300, float("nan"), "soon", True, [1]]


@pytest.mark.parametrize("at", ODD_TIMES, ids=repr)
async def test_a_time_that_no_calendar_has_is_shown_as_none(store, tasks, at):
    [first] = await begin(store, *jobs("a"))
    await store.commit([dead(first)])
    names_ = ("created", "started", "ended", "last_retry", "expires")
    for name in names_:
        before = tasks.find_one({"_id": "a"})
        tasks.update_one({"_id": "a"}, {"$set": {f"mulligan.{name}": at}})
        read = await store.get("a")
        assert read.status == "failed"
        times = (read.due, read.created_at, read.started_at, read.ended_at, read.last_retry_at)
        assert all(abs(each or 0) < LAST_DATE / SECOND for each in times), name
        tasks.replace_one({"_id": "a"}, before)


@pytest.mark.parametrize("private", [[], [1, 2], [[]], [{"line": "x"}]], ids=repr)
async def test_a_list_in_place_of_private_fields_is_set_aside_by_the_upkeep(
    store, tasks, clock, private
):
    tasks.insert_one(plain(clock, "bad", mulligan=private))
    tasks.insert_one(plain(clock, "left", payload=None, mulligan=private))
    tasks.insert_one(plain(clock, "later", next_retry_at=moment(clock.now + 9), mulligan=private))
    await claim(store, ANYONE, demand=5)
    await store.promote(100)
    told = {each["_id"]: (each["status"], each["error"]) for each in tasks.find()}
    assert told["bad"][0] == "failed"
    assert "use another name" in told["bad"][1]["message"]
    assert told["left"] == told["later"] == ("pending", None)


@pytest.mark.parametrize("permits", [[None, 7, {"a": 1}, "gone"], [["x"]], 7, None], ids=repr)
async def test_whatever_stands_among_the_permits_of_a_running_job_it_ends(
    store, another, tasks, permits
):
    first, second = await begin(store, *jobs("a", "b"))
    tasks.update_many({}, {"$set": {"mulligan.permits": permits}})
    assert await another.commit([done(first)]) == ["written"]
    await store.leave(ANN)
    for each in await store.reclaim(10, REAPER):
        assert await store.commit([done(each)]) == ["written"]
    assert (await store.get(second.id)).status in ("done", "failed")


@pytest.mark.parametrize("fields", [{"due": "x"}, {"line": "odd"}, {"token": None}], ids=repr)
async def test_a_damaged_job_that_a_key_holds_is_set_aside_and_the_next_one_is_let_go(
    store, tasks, fields
):
    [first] = (await claim_of_key(store, "a", "b", "c")).claims
    tasks.update_one(
        {"_id": "b"}, {"$set": {f"mulligan.{name}": value for name, value in fields.items()}}
    )
    assert await store.commit([done(first)]) == ["written"]
    assert names(await claim(store, demand=3)) == ["c"]
    assert (await store.get("b")).status == "failed"


async def claim_of_key(store, *ids):
    """Claim the first of jobs of which one may run at a time; the others are held."""
    await store.enqueue(jobs(*ids, concurrency_key="k"))
    return await claim(store, demand=len(ids))


ODD_PRIVATE = {
    "an empty list": [],
    "a list of numbers": [1, 2],
    "a list of documents": [{"place": 5}, {"line": "x"}],
    "a list of lists": [[{"place": 4}]],
    "a number in a list": {"place": [1, 2]},
    "a number and text in a list": {"place": [10**6, "x"]},
    "a number": 7,
    "text": "mine",
    "a document": {"a": 1},
}


@pytest.mark.parametrize("place", ["tasks", "tasks_dlq"])
async def test_whatever_another_program_calls_mulligan_its_document_is_listed_once(
    moving, database, clock, place
):
    status = "pending" if place == "tasks" else "failed"
    for number, (name, private) in enumerate(ODD_PRIVATE.items()):
        for key in (name, number, {"a": number}, ObjectId(number.to_bytes(12, "big"))):
            database[place].insert_one(plain(clock, key, status=status, mulligan=private))
    stored = [str(each["_id"]) for each in database[place].find()]
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


@pytest.mark.parametrize("at", ["2026-01-01", 1e9, float("nan"), [float("nan")], {}], ids=repr)
async def test_a_document_runs_whatever_it_says_about_its_last_change(store, tasks, clock, at):
    tasks.insert_one(plain(clock, "a", updated_at=at))
    first = await start(store, ANYONE)
    assert await store.commit([done(first)]) == ["written"]


async def test_a_document_without_a_task_is_left_alone_and_counted(store, tasks, clock):
    """As those whose task is text are not: they are found among any number of others."""
    payloads = ({"city": "Ulm"}, None, {"task": None}, [{"task": "ask"}], "text")
    tasks.insert_many([plain(clock, f"b{n}", payload=p) for n, p in enumerate(payloads * 150)])
    tasks.insert_one(plain(clock, "left", payload={}, status="processing", updated_at=moment(0)))
    tasks.insert_one(plain(clock, "good"))
    before = list(tasks.find({"_id": {"$ne": "good"}}).sort("_id", 1))
    assert names(await claim(store, ANYONE, demand=5)) == ["good"]
    assert await store.reclaim(10, REAPER) == []
    await store.promote(100)
    assert list(tasks.find({"_id": {"$ne": "good"}}).sort("_id", 1)) == before
    [finding] = [each for each in await store.doctor() if "name no task" in each[1]]
    assert finding[0] == "warn"
    assert finding[1].startswith("751 documents of tasks name no task")
    assert "default_task=" in finding[2]


async def test_what_another_program_keeps_where_an_expiry_stands_holds_up_no_other(
    store, tasks, clock
):
    fields = {"snoozes": 0, "replay": 0}
    for key, private in (("a", [{"expires": 1, **fields}]), ("b", {"expires": [1], **fields})):
        tasks.insert_one(plain(clock, key, payload=None, attempts=0, mulligan=private))
    before = list(tasks.find().sort("_id", 1))
    await store.enqueue([job("late", expires=1.0)])
    clock.advance(1)
    assert await store.promote(100) == 1
    assert (await store.get("late")).status == "cancelled"
    assert list(tasks.find({"_id": {"$ne": "late"}}).sort("_id", 1)) == before


async def test_a_malformed_document_that_was_mended_can_be_replayed(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", payload={"task": 7}))
    assert names(await claim(store, ANYONE)) == []
    reason = (await store.get("a")).last_failure_reason
    assert reason.startswith("MalformedError: malformed: payload.task")
    tasks.update_one({"_id": "a"}, {"$set": {"payload": {"task": "ask"}}})
    assert await store.replay(["a"]) == [True]
    assert names(await claim(store, ANYONE)) == ["a"]


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


async def test_a_sleeping_worker_is_woken_by_a_plain_insert(store, tasks, clock):
    await claim(store, ANYONE)
    waiting = asyncio.create_task(store.wait(ANN, 30))
    await asyncio.to_thread(tasks.insert_one, plain(clock, "a"))
    await asyncio.wait_for(waiting, 10)
    assert names(await claim(store, ANYONE)) == ["a"]


class Stream:
    """A change stream as a replica set would give it."""

    def __init__(self, *workers):
        self.changes = [{"documentKey": {"_id": each}} for each in workers]

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def __aiter__(self):
        for change in self.changes:
            yield change


async def test_a_change_stream_wakes_a_worker_that_another_process_rang(
    store, another, monkeypatch
):
    await claim(store, FRESH)
    heard = asyncio.Event()

    async def watch(_):
        await heard.wait()
        return Stream("somebody else", ANN.id)

    monkeypatch.setattr(store._base.sleepers, "watch", watch)
    monkeypatch.setattr("mulligan.stores.mongo.waiting.STREAMED", 3600)
    store._bells.waiting.streaming = True
    waiting = asyncio.create_task(store.wait(ANN, 30))
    await another.enqueue(jobs("a"))
    heard.set()
    await asyncio.wait_for(waiting, 10)
    assert names(await claim(store, FRESH)) == ["a"]


async def test_a_server_that_refuses_change_streams_is_looked_at_instead(
    store, another, monkeypatch
):
    await claim(store, FRESH)

    async def watch(_):
        raise pymongo.errors.OperationFailure("no change streams here")

    monkeypatch.setattr(store._base.sleepers, "watch", watch)
    monkeypatch.setattr("mulligan.stores.mongo.waiting.STREAMED", 0.01)
    store._bells.waiting.streaming = True
    waiting = asyncio.create_task(store.wait(ANN, 30))
    await another.enqueue(jobs("a"))
    await asyncio.wait_for(waiting, 10)
    assert not store._bells.waiting.streaming


async def test_a_wait_ends_though_the_driver_has_swallowed_that_its_time_was_up(store, monkeypatch):
    async def swallowing(worker: str) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)

    monkeypatch.setattr(store._bells.waiting, "listen", swallowing)
    await store.wait(ANN, 0.001)


# -- sharing the work ------------------------------------------------------------------------


async def test_another_program_reads_what_mulligan_enqueued(store, tasks, clock):
    await store.enqueue([job("a"), job("b", delay=2.0005)])
    first, second = tasks.find().sort("_id", 1)
    assert first["payload"] == {"task": "ask", "args": [], "kwargs": {}}
    assert first["backoff_policy"] == {
        "base_sec": 2.0,
        "factor": 2.0,
        "max_sec": 60.0,
        "jitter": "none",
    }
    assert (first["status"], first["attempts"], first["next_retry_at"]) == ("pending", 0, None)
    assert first["error"] is None
    # Never before its time: the date is the next whole millisecond.
    assert second["next_retry_at"] == moment(clock.now) + timedelta(milliseconds=2001)
    assert first["created_at"] == first["updated_at"] == moment(clock.now)


async def test_the_public_fields_follow_every_step(store, tasks, clock):
    await store.enqueue(jobs("a"))
    first = await start(store)
    clock.advance(3)
    await store.commit([again(first, 4.0, message="no answer")])
    document = tasks.find_one()
    assert (document["status"], document["attempts"]) == ("pending", 1)
    assert document["updated_at"] == moment(clock.now)
    assert document["next_retry_at"] == moment(clock.now + 4)
    assert document["error"]["message"] == "no answer"
    assert document["error"]["at"] == moment(clock.now)
    clock.advance(4)
    await store.commit([dead(await start(store), "never")])
    document = tasks.find_one()
    assert (document["status"], document["attempts"]) == ("failed", 1)
    assert (document["next_retry_at"], document["error"]["message"]) == (None, "never")


async def test_what_another_program_popped_is_not_claimed(store, tasks, clock):
    await store.enqueue(jobs("a", "b"))
    assert pop(tasks, clock.now)["_id"] == "a"
    assert names(await claim(store, demand=5)) == ["b"]
    assert pop(tasks, clock.now) is None
    stored = await store.get("a")
    assert (stored.status, stored.worker) == ("processing", None)


async def test_what_another_program_finished_has_ended(store, tasks, clock):
    await store.enqueue([job("a", unique_key="k"), job("b")])
    for name, status in (("a", "done"), ("b", "failed")):
        assert pop(tasks, clock.now)["_id"] == name
        clock.advance(1)
        finish(tasks, name, clock.now, status)
    assert (await store.get("a")).status == "done"
    assert (await store.get("a")).ended_at == clock.now - 1
    assert await store.enqueue([job("c", unique_key="k")]) == [("c", True)]
    assert await store.replay(["b"]) == [True]
    assert sorted(names(await claim(store, demand=5))) == ["b", "c"]
    clock.advance(10)
    assert await store.prune(5, 100) == 1


async def test_what_another_program_put_back_is_a_retry_due_at_its_date(store, tasks, clock):
    await store.enqueue(jobs("a"))
    pop(tasks, clock.now)
    put_back(tasks, "a", clock.now, 5)
    claimed = await claim(store)
    assert (names(claimed), claimed.again_in) == ([], 5.0)
    stored = await store.get("a")
    assert (stored.retry_count, stored.due) == (1, clock.now + 5)
    assert stored.last_failure_reason == "boom"
    clock.advance(5)
    retried = await start(store)
    assert (retried.attempt, retried.lane) == (2, RETRY)
    assert await store.commit([done(retried)]) == ["written"]


async def test_a_date_that_another_program_moved_forward_is_obeyed(store, tasks, clock):
    await store.enqueue([job("a", delay=3600.0), job("b", delay=3600.0)])
    tasks.update_one({"_id": "a"}, {"$set": {"next_retry_at": None}})
    tasks.update_one({"_id": "b"}, {"$set": {"next_retry_at": moment(clock.now)}})
    await store.promote(100)
    assert sorted(names(await claim(store, demand=5))) == ["a", "b"]


async def test_what_a_process_whose_clock_is_ahead_put_back_stands_where_it_put_it(
    store, store_url, clock
):
    elsewhere = Lane("default", "*-default", RETRY.priority)
    async with handle(store_url, lambda: clock() + 0.5) as ahead:
        await ahead.enqueue(jobs("a"))
        await ahead.commit([again(await start(ahead), lane=elsewhere)])
    await store.promote(10)
    clock.advance(1)
    assert (await start(store, elsewhere)).id == "a"


async def test_a_retry_of_mulligans_may_be_popped_when_it_is_due(store, tasks, clock):
    await store.enqueue(jobs("a"))
    first = await start(store)
    await store.commit([again(first, 2.0)])
    assert pop(tasks, clock.now + 1.999) is None
    assert pop(tasks, clock.now + 2)["attempts"] == 1


async def test_a_commit_is_stale_once_another_program_has_the_job(store, tasks, clock):
    await store.enqueue(jobs("a"))
    first = await start(store)
    clock.advance(TEN_MINUTES + 1)
    tasks.update_one({"_id": "a"}, {"$set": {"updated_at": moment(clock.now)}})  # popped anew
    assert await store.reclaim(10, REAPER) == []
    assert (await store.beat(ANN, [first.lease])).lost == [first.lease]
    assert await store.commit([done(first)]) == ["stale"]


@pytest.mark.parametrize(
    ("field", "value", "outcome"),
    [
        ("mulligan.history", "x", again),
        ("mulligan.history", "x", dead),
        ("mulligan.stamps", 7, done),
        ("mulligan.stamps", None, done),
        ("attempts", "x", again),
        ("mulligan.snoozes", "x", lambda claim: Later(claim.lease, 1.0)),
    ],
)
async def test_an_outcome_is_written_whatever_another_program_put_where_it_adds_something(
    store, tasks, field, value, outcome
):
    """What was there is set aside; the others of the batch are not held up."""
    await store.enqueue(jobs("a", "b"))
    first, second = (await claim(store, demand=2)).claims
    tasks.update_one({"_id": first.id}, {"$set": {field: value}})

    verdicts = await store.commit([outcome(first), done(second)])

    assert "stale" not in verdicts
    aside = tasks.find_one({"_id": first.id, f"{field}_damaged": value})
    assert aside is not None
    assert aside["status"] != "processing"
    assert (await store.get(second.id)).status == "done"
    if outcome is not done:
        await store.history(first.id)


async def test_a_history_that_another_program_has_written_to_is_shown_as_far_as_it_goes(
    store, tasks
):
    [first] = await begin(store, *jobs("a"))
    await store.commit([dead(first, "no luck")])
    tasks.update_one({"_id": "a"}, {"$push": {"mulligan.history": 7}})
    assert [attempt.message for attempt in await store.history("a")] == ["no luck"]
    tasks.update_one({"_id": "a"}, {"$set": {"mulligan.history": "x"}})
    assert await store.history("a") == []


async def test_an_abandoned_pop_is_reclaimed_ten_minutes_after_its_last_sign(store, tasks, clock):
    await store.enqueue(jobs("a"))
    tasks.insert_one(plain(clock, "b"))
    clock.advance(1)
    assert {pop(tasks, clock.now)["_id"], pop(tasks, clock.now)["_id"]} == {"a", "b"}
    clock.advance(TEN_MINUTES - 1)
    assert await store.reclaim(10, REAPER) == []
    clock.advance(1)
    reclaimed = await store.reclaim(10, REAPER)
    assert sorted(each.id for each in reclaimed) == ["a", "b"]
    assert await store.reclaim(10, BOB) == []
    outcomes = [decide(each, Lost(), await store.facts(), 0.5) for each in reclaimed]
    assert await store.commit(outcomes) == ["written", "written"]
    assert sorted(names(await claim(store, demand=5))) == ["a", "b"]
    assert {each["attempts"] for each in tasks.find()} == {1}


async def test_running_jobs_show_a_sign_of_life_every_minute(store, tasks, clock):
    await store.enqueue(jobs("a"))
    first = await start(store)
    signs = []
    for _ in range(40):
        clock.advance(5)
        assert (await store.beat(ANN, [first.lease])).lost == []
        signs.append(clock.now - tasks.find_one()["updated_at"].timestamp())
    assert max(signs) < 60
    assert await store.commit([done(first)]) == ["written"]


async def test_a_plain_worker_and_mulligan_share_500_tasks_and_each_is_done_once(
    store, tasks, clock
):
    await store.enqueue([job(f"m{n}") for n in range(250)])
    tasks.insert_many([plain(clock, f"p{n}") for n in range(250)])
    finished: list[str] = []

    def work():
        while (document := pop(tasks, clock.now)) is not None:
            finish(tasks, document["_id"], clock.now)
            finished.append(document["_id"])

    thread = threading.Thread(target=work)
    thread.start()
    ours: list[str] = []
    while claims := (await claim(store, FRESH, demand=7)).claims:
        ours += [each.id for each in claims]
        assert set(await store.commit([done(each) for each in claims])) == {"written"}
    await asyncio.to_thread(thread.join)
    assert Counter(ours + finished) == Counter([f"{k}{n}" for k in "mp" for n in range(250)])
    assert tasks.count_documents({"status": "done"}) == 500


async def test_claims_that_race_take_each_job_once_and_never_pass_a_gate(store, another, clock):
    await store.enqueue([job(f"j{n}", concurrency_key=f"k{n % 3}") for n in range(30)])
    gate = source(FRESH, Cap("cap", 5))
    handles = [store, another]
    workers = [Worker(f"w{n}") for n in range(6)]
    await claim(store, Lane("none", "default", 0), worker=workers[0])
    taken: list[str] = []
    for _ in range(100):
        rounds = await asyncio.gather(
            *(claim(handles[n % 2], gate, demand=4, worker=w) for n, w in enumerate(workers))
        )
        claims = [each for got in rounds for each in got.claims]
        if not claims and len(taken) == 30:
            break
        assert len(claims) <= 3, "a key admits one at a time"
        taken += [each.id for each in claims]
        await store.commit([done(each) for each in claims])
    assert Counter(taken) == Counter(f"j{n}" for n in range(30))


def crash(*_):
    """The process dies here, as far as the store can tell."""
    raise asyncio.CancelledError


# -- crashes ---------------------------------------------------------------------------------


async def test_next_jobs_are_delivered_after_a_crash_right_behind_the_commit(
    store, another, tasks, monkeypatch
):
    await store.enqueue(jobs("a"))
    first = await start(store)

    monkeypatch.setattr("mulligan.stores.mongo.committing.deliver", crash)
    with pytest.raises(asyncio.CancelledError):
        await store.commit([done(first, b"1", job("next"))])
    monkeypatch.undo()
    assert tasks.find_one({"_id": "a"})["status"] == "done"
    assert await another.get("next") is None
    assert await another.prune(0, 100) == 0
    await another.promote(100)
    assert names(await claim(another, worker=BOB)) == ["next"]
    await another.promote(100)
    assert "outbox" not in tasks.find_one({"_id": "a"})["mulligan"]
    assert names(await claim(another, worker=BOB)) == []


async def test_a_permit_that_died_with_its_claim_is_freed_within_a_lease(
    store, another, clock, monkeypatch
):
    await store.enqueue(jobs("a", "b"))
    gate = source(FRESH, Cap("cap", 1))
    await claim(store, gate, demand=0)
    monkeypatch.setattr("mulligan.stores.mongo.leases.lease_of", crash)
    with pytest.raises(asyncio.CancelledError):
        await claim(store, gate)
    monkeypatch.undo()
    await another.promote(100)
    assert names(await claim(another, gate, worker=BOB)) == []
    clock.advance(ANN.lease)
    await another.promote(100)
    assert names(await claim(another, gate, worker=BOB)) == ["a"]


async def test_a_held_job_that_nobody_let_go_is_found(store, another, clock, monkeypatch):
    await store.enqueue([job("a", concurrency_key="k"), job("b", concurrency_key="k")])
    [first] = (await claim(store, demand=5)).claims
    monkeypatch.setattr(store._keys, "release", crash)
    with pytest.raises(asyncio.CancelledError):
        await store.commit([done(first)])
    monkeypatch.undo()
    clock.advance(ANN.lease)
    await another.promote(100)
    assert names(await claim(another, worker=BOB)) == ["b"]


# -- fan-in and fan-out that a crash interrupts ----------------------------------------------

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
    go_on = getattr(Gathering, step)

    async def die(*arguments):
        return await go_on(*arguments) if next(alive, None) is not None else crash()

    with monkeypatch.context() as patched:
        patched.setattr(Gathering, step, die)
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

    async def after_it_came_again(base_, arrivals):
        monkeypatch.undo()
        assert await store.cancel(["all"], "begun anew") == [True]
        assert await store.purge(["all"]) == [True]
        assert await store.enqueue([gathering(1)]) == [("all", True)]
        await keep(base_, arrivals)

    monkeypatch.setattr("mulligan.stores.mongo.gathering.keep", after_it_came_again)
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


def following(count, size=0):
    """Next jobs, each with an argument of this size."""
    text = encode({"task": "ask", "args": ["x" * size], "kwargs": {}})
    return [job(f"next{n}", body=text) for n in range(count)]


async def test_more_next_jobs_than_a_document_holds_are_enqueued(store, database):
    await store.enqueue(jobs("a"))
    first = await start(store)
    await store.commit([done(first, b"1", *following(80, 200_000))])
    assert await store.depth(FRESH, 100) == 80
    assert len((await start(store)).body) > 200_000
    assert database["tasks_outbox"].count_documents({}) == 0


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr("mulligan.stores.mongo.outbox.PART", 5000)


@pytest.mark.usefixtures("small_parts")
async def test_parts_of_an_outbox_are_delivered_after_a_crash_right_behind_the_commit(
    store, another, database, tasks, monkeypatch
):
    await store.enqueue(jobs("a"))
    first = await start(store)
    with monkeypatch.context() as patched:
        patched.setattr("mulligan.stores.mongo.committing.deliver", crash)
        with pytest.raises(asyncio.CancelledError):
            await store.commit([done(first, b"1", *following(50))])
    assert database["tasks_outbox"].count_documents({}) > 1
    assert await another.depth(FRESH, 100) == 0
    await another.promote(100)
    assert await another.depth(FRESH, 100) == 50
    assert database["tasks_outbox"].count_documents({}) == 0
    assert "outbox" not in tasks.find_one({"_id": "a"})["mulligan"]


@pytest.mark.usefixtures("small_parts")
async def test_parts_whose_commit_never_came_enqueue_nothing_and_are_swept(
    store, another, database, clock, monkeypatch
):
    await store.enqueue(jobs("a"))
    first = await start(store)
    with monkeypatch.context() as patched:
        patched.setattr(store._base, "apply", crash)
        with pytest.raises(asyncio.CancelledError):
            await store.commit([done(first, b"1", *following(50))])
    await another.promote(100)
    assert database["tasks_outbox"].count_documents({}) > 1, "the commit may yet come"
    clock.advance(ANN.lease)
    [reclaimed] = await another.reclaim(1, REAPER)
    clock.advance(1)
    await another.promote(100)
    assert database["tasks_outbox"].count_documents({}) == 0
    assert await another.depth(FRESH, 100) == 0
    await another.commit([done(reclaimed, b"1", *following(50))])
    assert await another.depth(FRESH, 100) == 50


@pytest.mark.usefixtures("small_parts")
async def test_a_stale_commit_leaves_no_parts(store, another, database, monkeypatch):
    await store.enqueue(jobs("a"))
    first = await start(store)
    write = store._base.apply

    async def too_late(changes, stamp=None):
        await another.cancel(["a"], "no need")
        return await write(changes, stamp)

    monkeypatch.setattr(store._base, "apply", too_late)
    assert await store.commit([done(first, b"1", *following(50))]) == ["stale"]
    assert database["tasks_outbox"].count_documents({}) == 0
    assert await store.depth(FRESH, 100) == 0


# -- what happens between a write and the look at what was written ---------------------------


@pytest.fixture
def between(monkeypatch):
    """Have something happen right after the next write to the tasks, or right before it."""

    def happens(after=None, *, before=None):
        steps = [before, after]

        async def step():
            if steps and (happening := steps.pop(0)):
                await happening()

        async def write(collection, each):
            if collection.name != "tasks":
                return await colliding.write(collection, each)
            await step()
            reply = await colliding.write(collection, each)
            await step()
            return reply

        monkeypatch.setattr(base, "write", write)

    return happens


async def held_and_cancelled(store, another, **options):
    """The claim of a job, and one of a job that was cancelled: not all of a batch can match."""
    await store.enqueue([job("a", **options), job("b")])
    first, second = (await claim(store, demand=2)).claims
    await another.cancel(["b"], "no need")
    return first, second


PUT_BACK: dict[str, tuple[Callable[[Claim], Outcome], Lane]] = {
    "retry": (again, RETRY),
    "snooze": (lambda claim: Later(claim.lease, 0), FRESH),
    "return": (lambda claim: Returned(claim.lease), FRESH),
}


@pytest.mark.parametrize("how", PUT_BACK)
@pytest.mark.parametrize("rounds", [0, 1, 3])
async def test_an_outcome_is_written_though_others_had_the_job_before_we_looked(
    store, another, between, how, rounds
):
    put_back, lane = PUT_BACK[how]
    first, second = await held_and_cancelled(store, another)

    async def others_have_it():
        for _ in range(rounds):
            await another.commit([put_back(await start(another, lane, worker=BOB))])
        assert (await start(another, lane, worker=BOB)).id == "a"

    between(others_have_it)
    assert await store.commit([put_back(first), done(second)]) == ["written", "stale"]
    assert await store.commit([put_back(first)]) == ["stale" if rounds else "already"]


async def test_a_permit_is_freed_though_its_job_was_claimed_before_we_looked(
    store, another, database, between
):
    limited = {"concurrency_key": "k", "concurrency_limit": 2}
    first, second = await held_and_cancelled(store, another, **limited)

    def permits():
        return [word for gate in database["tasks_gates"].find() for word in gate["holders"]]

    async def claimed_by_another():
        await start(another, RETRY, worker=BOB)
        assert len(permits()) == 2

    between(claimed_by_another)
    assert await store.commit([again(first), done(second)]) == ["written", "stale"]
    assert len(permits()) == 1


async def test_an_outcome_is_written_though_its_job_was_purged_before_we_looked(
    store, another, between
):
    first, second = await held_and_cancelled(store, another)

    async def purged():
        assert await another.purge(["a"]) == [True]

    between(purged)
    verdicts = await store.commit([done(first, b"1", *following(1)), done(second)])
    assert verdicts == ["written", "stale"]
    assert await store.depth(FRESH, 100) == 1


async def test_an_outcome_of_a_job_that_was_purged_before_the_write_is_stale(store, another):
    first, second = await held_and_cancelled(store, another)
    await another.purge(["b"])
    assert await store.commit([done(second), done(first)]) == ["stale", "written"]


async def test_an_outcome_is_written_once_though_it_is_sent_again_before_we_looked(
    store, another, between
):
    first, second = await held_and_cancelled(store, another)

    async def sent_again():
        assert await another.commit([again(first)]) == ["already"]
        assert (await start(another, RETRY, worker=BOB)).id == "a"

    between(sent_again)
    assert await store.commit([again(first), done(second)]) == ["written", "stale"]


async def test_an_outcome_that_another_process_wrote_for_us_was_already_written(
    store, another, between
):
    first, second = await held_and_cancelled(store, another)

    async def written_by_another():
        assert await another.commit([again(first)]) == ["written"]
        assert (await start(another, RETRY, worker=BOB)).id == "a"

    between(before=written_by_another)
    assert await store.commit([again(first), done(second)]) == ["already", "stale"]


async def test_what_a_claim_by_an_outdated_plan_gave_back_may_be_returned_once_more(
    store, another, between
):
    """A worker that was stopped within such a claim is told that it forgot what it took."""
    journal = InMemory()
    history = recorded(store, journal)
    await history.beat(ANN, [])
    await history.enqueue([job("a")])
    plan = replace(in_turn(1, group(FRESH)), epoch=(await store.facts()).epoch)
    taken: list[Lease] = []

    async def outdate():
        taken.append(Lease("a", (await another.get("a")).token))
        await another.pause("elsewhere", paused=True)

    between(outdate)
    claimed = await history.claim(plan, ANN)
    assert (claimed.claims, claimed.stale) == ([], True)
    assert await history.commit([Returned(taken[0])]) == ["already"]
    assert (await start(history)).id == "a"
    assert check(journal.events) == []


async def test_a_dead_letter_is_replayed_though_it_was_claimed_before_we_looked(
    store, another, between
):
    await store.enqueue(jobs("a", "b"))
    await store.commit([dead(each) for each in (await claim(store, demand=2)).claims])
    documents = store._operating.documents

    async def outdated(names):
        found = await documents(names)
        await another.purge(["b"])
        return found

    async def claimed_by_another():
        assert (await start(another, worker=BOB)).id == "a"

    store._operating.documents = outdated
    between(claimed_by_another)
    assert await store.replay(["a", "b"]) == [True, False]


# -- unique keys between the stages of a chain -----------------------------------------------


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
    tasks = store._base.tasks
    store._base.tasks = Tasks(tasks, writes)
    with pytest.raises(asyncio.CancelledError):
        yield
    store._base.tasks = tasks


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
        tasks = store._base.tasks = Tasks(another._base.tasks)
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
    assert {"outbox", "keeps"}.isdisjoint(tasks.find_one({"_id": "a"})["mulligan"])
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
    assert tasks.count_documents({"mulligan.keeps": {"$exists": True}}) == 2
    await store.cancel(["cancelled"], "no need")
    clock.advance(1)
    assert names(await claim(store)) == []
    assert tasks.count_documents({"mulligan.keeps": {"$exists": True}}) == 0


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


async def test_nothing_is_lost_when_many_count_at_once(store, another):
    counts = [Count("q", "US", "a.b$%", 1), Count("q", "EU", "failed", 1)]
    await asyncio.gather(*(each.count(counts) for each in [store, another] * 10))
    counts = await store.counts()
    assert counts.ever == counts.recent == {("q", "US", "a.b$%"): 20, ("q", "EU", "failed"): 20}


async def test_old_slots_are_deleted_by_housekeeping(store, database, clock):
    await store.count([Count("q", "US", "failed", 1)])
    clock.advance(100)
    await store.prune(0, 100)
    assert database["tasks_counts"].count_documents({"start": {"$exists": True}}) == 0
    assert (await store.counts()).ever == {("q", "US", "failed"): 1}


# -- dead letters in a collection of their own -----------------------------------------------


@pytest.fixture
async def moving(store_url, clock):
    async with handle(store_url + "&move_dead=true", clock) as opened:
        yield opened


async def fail(store, *names_):
    await store.enqueue(jobs(*names_))
    claims = (await claim(store, demand=len(names_))).claims
    await store.commit([dead(each) for each in claims])


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
        assert await move_dead(moving._base, ["a"]) == 1

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
    monkeypatch.setattr("mulligan.stores.mongo.committing.move_dead", crash)
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
        written = await colliding.write(collection, statements)
        if collection.name == "tasks_dlq":
            monkeypatch.undo()
            assert await moving.replay(["a"]) == [True]
        return written

    monkeypatch.setattr("mulligan.stores.mongo.dead.write", replayed_after_the_copy)
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
        return await colliding.write(collection, statements)

    monkeypatch.setattr("mulligan.stores.mongo.dead.write", replayed_before_the_copy)
    await fail(moving, "a")
    assert database["tasks_dlq"].count_documents({}) == 0
    assert tasks.count_documents({"_id": "a", "status": "pending"}) == 1


async def test_a_letter_whose_move_stopped_after_the_copy_may_be_replayed(
    moving, database, tasks, monkeypatch
):
    async def copies_and_dies(collection, statements):
        await colliding.write(collection, statements)
        raise asyncio.CancelledError

    monkeypatch.setattr("mulligan.stores.mongo.dead.write", copies_and_dies)
    with pytest.raises(asyncio.CancelledError):
        await fail(moving, "a")
    monkeypatch.undo()
    assert (database["tasks_dlq"].count_documents({}), tasks.count_documents({})) == (1, 1)
    assert await moving.replay(["a"]) == [True]
    assert database["tasks_dlq"].count_documents({}) == 0
    await moving.commit([dead(await start(moving))])
    assert (database["tasks_dlq"].count_documents({}), tasks.count_documents({})) == (1, 0)


# -- safety ----------------------------------------------------------------------------------


async def test_operators_in_payloads_and_names_are_only_text(store, tasks):
    text = b'{"task":"ask","args":[{"$where":"1","a.b":9007199254740993123456}],"kwargs":{}}'
    odd = job("$ne", body=text, queue="$gt", task="$where", region="a.b", unique_key="{}")
    await store.enqueue([odd, job("b")])
    document = tasks.find_one({"_id": "$ne"})
    assert set(document["payload"]) == {"task", "json"}
    claimed = await start(store, odd.lane)
    assert (claimed.id, claimed.body) == ("$ne", text)
    assert [each.id for each in (await store.page(Selection(queue="$gt"), 5)).jobs] == ["$ne"]
    assert (await store.page(Selection(text="$.*"), 5)).jobs == []
    assert await store.commit([dead(claimed, "$.* failed\ud800")]) == ["written"]
    assert [each.id for each in (await store.page(Selection(text="$.*"), 5)).jobs] == ["$ne"]


async def test_what_mulligan_shows_as_text_another_mulligan_reads_back(store, tasks, clock):
    payload = {"task": "ask", "json": '{"args":[{"$a":1}],"kwargs":{}}'}
    tasks.insert_one(plain(clock, "a", payload=payload))
    assert decode_call((await start(store, ANYONE)).body).args == [{"$a": 1}]


async def test_errors_do_not_show_the_password(monkeypatch):
    async def lose(*_, **__):
        raise pymongo.errors.AutoReconnect("ann:s@cret (s%40cret) lost the connection")

    monkeypatch.setattr("mulligan.stores.mongo.schema.check_layout", lose)
    store = make_store("mongodb://ann:s%40cret@127.0.0.1:9/db")
    with pytest.raises(StoreUnavailableError) as caught:
        await store.open()
    await store.close()
    assert "127.0.0.1:9 cannot be reached: ann:***" in str(caught.value)
    assert "cret" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("options", ["move_dead=perhaps", "collection=a$b", "default_task=a%0Ab"])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidError):
        make_store(f"mongodb://127.0.0.1/db?{options}")


# -- the place -------------------------------------------------------------------------------


async def test_the_collection_has_the_name_that_the_url_gives(store_url, database, clock):
    async with handle(store_url + "&collection=errands", clock) as store:
        await store.enqueue(jobs("a"))
    assert database["errands"].count_documents({}) == 1
    assert database["tasks"].count_documents({}) == 0


async def test_every_index_is_there_and_documented(store, tasks):
    there = {each["name"]: list(each["key"]) for each in tasks.list_indexes()}
    assert there["status_created"] == ["status", "created_at"]
    assert there["next_retry"] == ["next_retry_at"]
    assert there["status_updated"] == ["status", "updated_at"]
    text = DOCUMENTATION.read_text(encoding="utf-8")
    for collection, indexes in schema.wanted(store._base):
        assert await schema.missing_from(collection, indexes) == []
        assert f"`{collection.name}`" in text
        for index in indexes:
            assert f"`{index.document['name']}`" in text


async def test_no_two_indexes_of_a_collection_are_on_the_same_fields(store):
    """MongoDB 4.4 refuses a second one that has only another filter."""
    for _, indexes in schema.wanted(store._base):
        fields = [tuple(index.document["key"].items()) for index in indexes]
        assert len(set(fields)) == len(fields)


async def test_opening_what_is_up_to_date_reads_each_thing_once_and_writes_nothing(
    store_url, store, clock, monkeypatch
):
    sent = []

    def noted(name):
        real = getattr(AsyncCollection, name)

        def call(self, *args, **options):
            sent.append((self.name, name))
            return real(self, *args, **options)

        monkeypatch.setattr(AsyncCollection, name, call)

    for name in ("find", "list_indexes", "create_indexes", "drop_index", "update_one"):
        noted(name)
    async with handle(store_url, clock):
        pass
    listed = [(collection.name, "list_indexes") for collection, _ in schema.wanted(store._base)]
    assert sent == [("tasks_meta", "find"), *listed]


async def test_an_index_that_an_operator_dropped_is_created_when_a_store_is_opened(
    store_url, store, tasks, clock
):
    tasks.drop_index("expires")
    async with handle(store_url, clock):
        assert "expires" in {each["name"] for each in tasks.list_indexes()}


async def test_the_doctor_looks_at_what_matters(store_url, clock, tasks):
    async with handle(store_url + "&w=1", clock) as store:
        assert isinstance(store, MongoStore)
        findings = await store.doctor()
        tasks.drop_index("expires")
        worse = await store.doctor()
    assert {state for state, _, _ in findings} <= {"ok", "warn"}
    said = " ".join(sentence for _, sentence, _ in findings)
    for word in ("version", "w=1", "change streams", "clock", "indexes"):
        assert word in said
    assert [sentence for state, sentence, _ in worse if state == "bad"] == [
        "indexes are missing: tasks.expires"
    ]


async def test_the_servers_time_decides_where_no_clock_is_injected(store_url):
    store = make_store(store_url)
    await store.open()
    try:
        before = (await store.stats()).now
        await store.enqueue([job("a", delay=30.0)])
        claimed = await claim(store)
        assert claimed.again_in is not None
        assert 0 < claimed.again_in <= 30
        assert abs(before - datetime.now(UTC).timestamp()) < 60
    finally:
        await store.close()


# -- many documents in one write -------------------------------------------------------------


class Colliding:
    """The tasks as a process sees them whose first writes collide with those of another."""

    def __init__(self, tasks, *failures):
        self.tasks = tasks
        self.failures = list(failures)
        self.sent = []

    def __getattr__(self, name):
        return getattr(self.tasks, name)

    async def bulk_write(self, statements, *, ordered):
        """Fail with what comes next; if that concerns the first statement, the others are done."""
        self.sent.append(len(statements))
        if not self.failures:
            return await self.tasks.bulk_write(statements, ordered=ordered)
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        written = dict.fromkeys(("nInserted", "nUpserted", "nMatched", "nRemoved"), 0)
        errors = [{"index": 0, "errmsg": "no", **failure}]
        for at, statement in list(enumerate(statements))[1:]:
            try:
                reply = await self.tasks.bulk_write([statement])
                written = {
                    name: count + reply.bulk_api_result[name] for name, count in written.items()
                }
            except BulkWriteError as error:
                errors.append(error.details["writeErrors"][0] | {"index": at})
        raise BulkWriteError(written | {"writeErrors": errors, "writeConcernErrors": []})


DEADLOCK = {"code": 8000, "errmsg": "deadlock detected"}
CONFLICT = {"code": 112, "errmsg": "Write conflict during plan execution"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """What collided is sent again without a pause."""
    monkeypatch.setattr(colliding, "PAUSE", 0)


@pytest.mark.parametrize("failure", [DEADLOCK, CONFLICT])
async def test_a_statement_that_collided_is_sent_again_without_the_others(store, failure):
    await store.enqueue(jobs("a", "b", "c"))
    claims = (await claim(store, demand=3)).claims
    tasks = store._base.tasks = Colliding(store._base.tasks, failure, failure)
    outcomes = [done(each, each.id.encode()) for each in claims]
    assert await store.commit(outcomes) == ["written"] * 3
    assert tasks.sent == [3, 1, 1]
    assert [(await store.get(name)).result for name in "abc"] == [b"a", b"b", b"c"]


async def test_a_command_that_collided_as_a_whole_is_sent_again(store):
    await store.enqueue(jobs("a"))
    refusal = OperationFailure("deadlock detected", 8000, DEADLOCK)
    store._base.tasks = Colliding(store._base.tasks, refusal)
    assert names(await claim(store)) == ["a"]


async def test_an_insert_that_collided_is_sent_again_and_one_that_was_there_is_not(store):
    await store.enqueue(jobs("b"))
    store._base.tasks = Colliding(store._base.tasks, DEADLOCK)
    answers = await store.enqueue(jobs("a", "b"))
    assert [answer.created for answer in answers] == [True, False]


@pytest.mark.parametrize("failure", [{"code": 2}, OperationFailure("no", 2, {"code": 2})])
async def test_what_failed_for_another_reason_is_raised(store, failure):
    tasks = store._base.tasks = Colliding(store._base.tasks, failure)
    with pytest.raises(StoreError, match="no"):
        await store.enqueue(jobs("a"))
    assert len(tasks.sent) == 1


@pytest.mark.parametrize("failure", [DEADLOCK, OperationFailure("", 8000, DEADLOCK)])
async def test_a_write_that_collides_again_and_again_is_given_up(store, failure):
    store._base.tasks = Colliding(store._base.tasks, *[failure] * colliding.TRIES)
    with pytest.raises(StoreError):
        await store.enqueue(jobs("a"))


TRANSIENT = {"code": 251, "errmsg": "no", "errorLabels": ["TransientTransactionError"]}
ONE_DOCUMENT = {
    "insert_one": ({"_id": "b"},),
    "update_one": ({"_id": "a"}, {"$inc": {"n": 1}}),
    "replace_one": ({"_id": "a"}, {"n": 2}),
    "delete_one": ({"_id": "a"},),
    "find_one_and_update": ({"_id": "a"}, {"$inc": {"n": 1}}),
    "find_one_and_delete": ({"_id": "a"},),
}


def failing(monkeypatch, name, *failures):
    """Have the driver fail so often before it does what it is asked; how often it was asked."""
    asked = []
    left = [OperationFailure("no", each["code"], each) for each in failures]
    real = getattr(AsyncCollection, name)

    async def ask(self, *args, **options):
        asked.append(args)
        if left:
            raise left.pop()
        return await real(self, *args, **options)

    monkeypatch.setattr(AsyncCollection, name, ask)
    return asked


@pytest.mark.parametrize("failure", [DEADLOCK, CONFLICT, TRANSIENT], ids=lambda each: each["code"])
@pytest.mark.parametrize("name", ONE_DOCUMENT)
async def test_a_statement_about_one_document_that_collided_is_sent_again(
    store, tasks, monkeypatch, name, failure
):
    tasks.insert_one({"_id": "a", "n": 1})
    before = list(tasks.find())
    asked = failing(monkeypatch, name, failure, failure)
    copied = store._base.tasks.with_options(TO_WRITE)
    await getattr(copied, name)(*ONE_DOCUMENT[name])
    assert len(asked) == 3
    assert list(tasks.find()) != before


@pytest.mark.parametrize("failures", [[{"code": 2}], [DEADLOCK] * colliding.TRIES], ids=len)
async def test_a_statement_about_one_document_that_fails_otherwise_or_for_ever_is_given_up(
    store, monkeypatch, failures
):
    asked = failing(monkeypatch, "find_one_and_update", *failures)
    with pytest.raises(StoreError, match="refused"):
        await store.enqueue(jobs("a"))
    assert len(asked) == len(failures)


def a_change(name, token, fields=None):
    return Change(name, {"status": "pending"}, {"$set": fields or {"n": 1}}, token)


def test_changes_that_are_alike_are_one_statement_and_others_stand_in_the_order_of_keys():
    changes = [a_change("c", 3 * 4096, {"n": 2}), a_change("b", 2 * 4096), a_change("a", 4096)]
    first, second = statements(changes, "stamp")
    assert first._filter == {
        "_id": {"$in": ["a", "b"]},
        "status": "pending",
        "mulligan.token": {"$in": [4096, 2 * 4096]},
    }
    assert second._filter == {"_id": "c", "status": "pending", "mulligan.token": 3 * 4096}


def test_documents_whose_tokens_might_be_taken_for_each_other_are_written_one_by_one():
    changes = [a_change("a", 1), a_change("b", 2), a_change("c", 4096), a_change("d", 2 * 4096)]
    asked = [each._filter["_id"] for each in statements(changes, "stamp")]
    assert asked == ["a", "b", {"$in": ["c", "d"]}]


async def test_a_large_body_comes_with_its_claim_as_a_small_one_does(store):
    large, small = body(text="x" * 100_000), body(text="x")
    await store.enqueue([job("large", body=large), job("small", body=small)])
    claims = (await claim(store, demand=2)).claims
    assert [(each.id, each.body) for each in claims] == [("large", large), ("small", small)]


async def test_a_job_that_another_program_had_since_it_was_read_is_read_again(
    store, tasks, clock, monkeypatch
):
    await store.enqueue(jobs("a"))
    write = store._base.apply

    async def too_late(changes, stamp=None):
        monkeypatch.undo()
        pop(tasks, clock.now)
        put_back(tasks, "a", clock.now, 0)
        return await write(changes, stamp)

    monkeypatch.setattr(store._base, "apply", too_late)
    claimed = await start(store, FRESH, RETRY)
    assert claimed.retry_count == 1


async def test_what_was_claimed_elsewhere_or_long_ago_can_be_committed(store, another, monkeypatch):
    monkeypatch.setattr("mulligan.stores.mongo.leases.MOST", 1)
    await store.enqueue(jobs("a", "b", "c"))
    first, second, third = (await claim(store, demand=3)).claims
    assert await another.commit([done(first)]) == ["written"]
    assert await store.commit([done(first), done(second), done(third)]) == [
        "already",
        "written",
        "written",
    ]


async def test_a_deep_lane_is_emptied_in_its_order_whatever_joins_it_meanwhile(store, clock):
    stands: list[tuple[float, int, str]] = []
    order = itertools.count()

    async def join(name, delay=0.0):
        await store.enqueue([job(name, delay=delay)])
        stands.append((clock.now + delay, next(order), name))

    for number in range(30):
        await join(f"early-{number}")
        clock.advance(number % 3)
    for number in range(15):
        due = sorted(each for each in stands if each[0] <= clock.now)
        claims = (await claim(store, demand=3)).claims
        assert [each.id for each in claims] == [name for _, _, name in due[:3]]
        await store.commit([Returned(claims[0].lease), *map(done, claims[1:])])
        stands = [each for each in stands if each not in due[1:3]]
        await join(f"late-{number}", delay=float(number % 4))
        clock.advance(number % 2)


# -- stores of earlier versions --------------------------------------------------------------


def before_lives(doc):
    """The document as the version before this one would have it."""
    private = {name: value for name, value in doc["mulligan"].items() if name != "since"}
    return doc | {"mulligan": private | {"token": 0, "committed": 0}}


async def test_jobs_of_a_store_from_before_there_were_lives_go_on(store, tasks, clock):
    await store.enqueue(jobs("a", "b", "c", "d", expires=60.0))
    for doc in list(tasks.find()):
        tasks.replace_one({"_id": doc["_id"]}, before_lives(doc))
    first, second, third = (await claim(store, demand=3)).claims
    assert [each.token for each in (first, second, third)] == [1, 1, 1]
    assert await store.commit([done(first), again(second), done(third)]) == ["written"] * 3
    assert await store.commit([done(first)]) == ["already"]
    clock.advance(60)
    assert await store.promote(10) == 1, "d never started"
    [retried] = (await claim(store, RETRY)).claims
    assert (retried.id, retried.token) == ("b", 2)
    await store.purge(["a"])
    await store.enqueue(jobs("a"))
    assert (await store.get("a")).token > first.token
    assert await store.commit([done(first)]) == ["stale"]


async def test_lanes_of_an_earlier_layout_are_found(store_url, database, clock):
    meta = database["tasks_meta"]
    async with handle(store_url, clock) as store:
        await store.enqueue(jobs("a"))
    lanes = [doc["_id"] for doc in meta.find({"_id": Regex("^lane:")})]
    meta.delete_many({"_id": {"$in": lanes}})
    listed = [lane.removeprefix("lane:") for lane in lanes]
    meta.update_one({"_id": "facts"}, {"$set": {"lines": listed}})
    meta.update_one({"_id": "layout"}, {"$set": {"version": 1}})
    async with handle(store_url, clock) as store:
        assert (await start(store, FRESH)).id == "a"
    assert "lines" not in meta.find_one({"_id": "facts"})
    assert meta.find_one({"_id": "layout"})["version"] == schema.LAYOUT
    late = job("b", queue="late")
    async with handle(store_url, clock) as store:
        await store.enqueue([late])
    meta.delete_one({"_id": "lane:" + line_of(late.lane)})
    meta.update_one({"_id": "facts"}, {"$addToSet": {"lines": line_of(late.lane)}})
    async with handle(store_url, clock) as store:
        assert (await start(store, late.lane)).id == "b", "a process of that layout still ran"


async def test_what_every_claim_reads_does_not_grow_with_the_lanes_of_others(store, database):
    meta = database["tasks_meta"]
    before = meta.find_one({"_id": "facts"})
    await store.enqueue([job(f"{n}", queue=f"q{n}") for n in range(50)])
    assert meta.find_one({"_id": "facts"}) == before


async def test_a_claim_finds_a_lane_that_another_process_was_first_to_use(store_url, store, clock):
    assert (await claim(store)).claims == []
    async with handle(store_url, clock) as other:
        await other.enqueue(jobs("a"))
    assert names(await claim(store)) == ["a"]


async def test_a_lane_deeper_than_a_claim_looks_is_taken_in_order(store, clock, monkeypatch):
    monkeypatch.setattr("mulligan.stores.mongo.fronts.FURTHER", 2)
    batches = [[f"{batch}{n:02}" for n in range(15)] for batch in "abcd"]
    for batch in batches:
        await store.enqueue(jobs(*batch))
        clock.advance(1)
    await store.enqueue(jobs("late", delay=3600.0))
    claimed = [names(await claim(store, demand=6)) for _ in range(10)]
    assert list(itertools.chain(*claimed)) == list(itertools.chain(*batches))
    assert names(await claim(store, demand=6)) == []


def beaten_once(store, by):
    """Let another be quicker, after the next claim has read and before it writes."""
    leases = store._claiming.leases
    hand_over = leases.hand_over

    async def too_late(wanted, *rest):
        leases.hand_over = hand_over
        assert len((await claim(by, demand=len(wanted), worker=BOB)).claims) == len(wanted)
        return await hand_over(wanted, *rest)

    leases.hand_over = too_late


async def test_a_claim_that_lost_stands_back_for_a_second(store, another, clock):
    await store.enqueue(jobs(*"abcdefghijkl"))
    beaten_once(store, by=another)
    assert names(await claim(store, demand=2)) == ["e", "f"], "a and b are gone, c and d left"
    assert names(await claim(another, demand=1, worker=BOB)) == ["c"]
    clock.advance(1)
    assert names(await claim(store, demand=2)) == ["d", "g"]


async def test_who_stands_back_in_one_lane_does_not_in_another(store, another):
    await store.enqueue([*jobs(*"abcdefghij"), *jobs("x", "y", "z", queue="other")])
    beaten_once(store, by=another)
    assert names(await claim(store, demand=2)) == ["e", "f"]
    assert names(await claim(store, FRESH._replace(queue="other"), demand=2)) == ["x", "y"]
    assert names(await claim(store, FRESH._replace(queue="empty"), demand=2)) == []
    assert names(await claim(store, demand=2)) == ["g", "h"]


async def test_claims_that_lose_again_and_again_take_what_is_first_once_a_second(
    store, another, clock
):
    await store.enqueue(jobs(*(f"{n:02}" for n in range(40))))
    for _ in range(3):
        beaten_once(store, by=another)
        await claim(store)
        clock.advance(0.4)
    first = (await claim(another, worker=BOB)).claims[0]
    await store.commit([Returned(first.lease)])
    assert names(await claim(store)) == [first.id]


@pytest.mark.parametrize("behind", [{}, {"delay": 10.0}])
async def test_a_claim_stands_back_only_where_it_gets_all_it_wants(store, another, behind):
    await store.enqueue(jobs(*"abcd"))
    await store.enqueue(jobs(*"efgh" if behind else "e", **behind))
    beaten_once(store, by=another)
    assert names(await claim(store, demand=2)) == ["c", "d"]


async def test_of_dead_letters_that_want_one_key_the_first_named_is_replayed(store):
    for name in ("a", "b"):
        await store.enqueue(jobs(name, unique_key="k"))
        await store.commit([dead(await start(store, FRESH))])
    assert await store.replay(["b", "a"]) == [True, False]
    assert (await store.get("b")).status == "pending"


async def test_indexes_of_earlier_versions_are_dropped(store_url, tasks, clock):
    tasks.create_index("mulligan.line", name="line")
    async with handle(store_url, clock):
        assert "line" not in tasks.index_information()


async def test_workers_that_were_killed_are_forgotten_after_a_day(store, clock):
    await store.beat(ANN, [])
    clock.advance(86_000)
    await store.beat(BOB, [])
    await store.prune(0, 10)
    assert [view.worker for view in (await store.stats()).workers] == [ANN, BOB]
    clock.advance(1000)
    await store.prune(0, 10)
    assert [view.worker for view in (await store.stats()).workers] == [BOB]
