"""What only the MongoDB store does: it shares its documents with other programs."""

import asyncio
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pymongo
import pytest
from bson import Regex

from mulligan.core.backoff import Exponential
from mulligan.core.decide import decide
from mulligan.core.errors import InvalidError, StoreUnavailableError
from mulligan.core.job import decode_call, decode_policy
from mulligan.core.lane import Lane
from mulligan.core.outcome import Lost
from mulligan.core.plan import Running
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from mulligan.stores.contract import Selection
from mulligan.stores.mongo import MongoStore
from tests.contract.making import (
    ANN,
    BOB,
    FRESH,
    REAPER,
    RETRY,
    again,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
    source,
    start,
)
from tests.stores import fresh_url, handle

TEN_MINUTES = 600
DOCUMENTATION = Path(__file__).parent.parent / "docs" / "stores" / "mongodb.md"


@pytest.fixture
async def store_url(tmp_path):
    async with fresh_url("mongo", tmp_path) as url:
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


async def test_a_plain_insert_is_a_job_in_the_default_queue_and_region(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", payload={"task": "ask", "args": [1], "kwargs": {"b": 2}}))
    claimed = await start(store, FRESH)
    assert (claimed.id, claimed.task, claimed.queue, claimed.region) == (
        "a",
        "ask",
        "default",
        "default",
    )
    call = decode_call(claimed.body)
    assert (call.args, call.kwargs) == ([1], {"b": 2})
    assert await store.commit([done(claimed, b'"yes"')]) == ["written"]
    assert tasks.find_one({"_id": "a"})["status"] == "done"


async def test_a_document_with_an_object_id_runs_under_its_hexadecimal_name(store, tasks, clock):
    document = plain(clock, "a")
    del document["_id"]
    key = tasks.insert_one(document).inserted_id
    claimed = await start(store, FRESH)
    assert claimed.id == str(key)
    assert (await store.get(str(key))).status == "processing"
    assert await store.commit([again(claimed, 5.0)]) == ["written"]
    assert tasks.find_one({"_id": key})["attempts"] == 1
    assert await store.cancel([str(key)], "enough") == [True]


async def test_plain_inserts_start_in_the_order_of_their_creation(store, tasks, clock):
    later = moment(clock.now - 1)
    tasks.insert_many([plain(clock, "b", created_at=later), plain(clock, "c")])
    tasks.insert_one(plain(clock, "a", created_at=moment(clock.now - 2)))
    assert names(await claim(store, FRESH, demand=5)) == ["a", "b", "c"]


async def test_a_plain_insert_with_a_date_waits_for_it(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", next_retry_at=moment(clock.now + 7)))
    assert (await claim(store, FRESH)).again_in == 7.0
    clock.advance(7)
    assert names(await claim(store, FRESH)) == ["a"]


async def test_a_document_with_little_in_it_is_still_a_job(store, tasks):
    tasks.insert_one({"_id": "a", "payload": {"task": "ask"}, "status": "pending"})
    claimed = await start(store, FRESH)
    assert decode_call(claimed.body).args == []
    document = tasks.find_one({"_id": "a"})
    assert document["attempts"] == 0
    assert document["next_retry_at"] is None
    assert document["created_at"] == document["updated_at"]


async def test_a_payload_without_args_is_one_argument(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", payload={"task": "ask", "city": "Ulm", "at": moment(0)}))
    [argument] = decode_call((await start(store, FRESH)).body).args
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
    retry = decode_policy((await start(store, FRESH)).body).retry
    backoff = retry.backoff
    assert isinstance(backoff, Exponential)
    assert (backoff.base, backoff.factor, backoff.max, backoff.jitter) == expected
    assert retry.max_retries == 10


async def test_a_document_may_give_its_own_number_of_retries(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", max_retries=2.0))
    assert decode_policy((await start(store, FRESH)).body).retry.max_retries == 2


async def test_the_default_task_runs_what_names_none(store_url, tasks, clock):
    async with handle(store_url + "&default_task=sweep", clock) as store:
        tasks.insert_one(plain(clock, "a", payload={"room": 5}))
        tasks.insert_one(plain(clock, "b", payload="text"))
        claimed = (await claim(store, FRESH, demand=2)).claims
    assert [each.task for each in claimed] == ["sweep", "sweep"]
    assert [decode_call(each.body).args for each in claimed] == [[{"room": 5}], ["text"]]


MALFORMED = {
    "no task": {"payload": {"city": "Ulm"}},
    "no payload": {"payload": None},
    "a task that is no text": {"payload": {"task": {"$gt": ""}}},
    "a task with control characters": {"payload": {"task": "a\nb"}},
    "args that are no list": {"payload": {"task": "ask", "args": 5}},
    "a payload that is no JSON": {"payload": {"task": "ask", "args": [Regex("a")]}},
    "attempts that are text": {"attempts": "three"},
    "attempts below nothing": {"attempts": -1},
    "attempts in parts": {"attempts": 1.5},
    "a date that is text": {"next_retry_at": "tomorrow"},
    "a creation that is text": {"created_at": "today"},
    "a policy that is a list": {"backoff_policy": [1, 2]},
    "a base that is text": {"backoff_policy": {"base_sec": "5"}},
    "a base below nothing": {"backoff_policy": {"base_sec": -5}},
    "a key of its own kind": {"_id": 7},
    "private fields that are text": {"mulligan": "mine", "payload": None},
}


@pytest.mark.parametrize("fault", MALFORMED)
async def test_a_malformed_document_is_set_aside_and_holds_up_nothing(store, tasks, clock, fault):
    tasks.insert_one(plain(clock, "bad") | {"created_at": moment(0)} | MALFORMED[fault])
    tasks.insert_one(plain(clock, "good"))
    assert names(await claim(store, FRESH, demand=5)) == ["good"]
    [bad] = tasks.find({"status": "failed"})
    assert bad["error"]["code"] == "malformed"
    assert bad["error"]["message"].startswith("malformed: ")
    assert names(await claim(store, FRESH, demand=5)) == []


async def test_a_malformed_document_that_was_mended_can_be_replayed(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", payload={}))
    assert names(await claim(store, FRESH)) == []
    assert (await store.get("a")).last_failure_reason.startswith("malformed: payload.task")
    tasks.update_one({"_id": "a"}, {"$set": {"payload": {"task": "ask"}}})
    assert await store.replay(["a"]) == [True]
    assert names(await claim(store, FRESH)) == ["a"]


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
        FRESH: (1, 0),
        RETRY: (0, 1),
    }
    assert stats.ended == {("default", "done"): 1}


async def test_a_sleeping_worker_is_woken_by_a_plain_insert(store, tasks, clock):
    await claim(store, FRESH)
    waiting = asyncio.create_task(store.wait(ANN, 30))
    await asyncio.to_thread(tasks.insert_one, plain(clock, "a"))
    await asyncio.wait_for(waiting, 10)
    assert names(await claim(store, FRESH)) == ["a"]


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
    monkeypatch.setattr("mulligan.stores.mongo.bells.STREAMED", 3600)
    store._bells.streaming = True
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
    monkeypatch.setattr("mulligan.stores.mongo.bells.STREAMED", 0.01)
    store._bells.streaming = True
    waiting = asyncio.create_task(store.wait(ANN, 30))
    await another.enqueue(jobs("a"))
    await asyncio.wait_for(waiting, 10)
    assert not store._bells.streaming


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
    assert await store.seize(10, REAPER) == []
    assert (await store.beat(ANN, [first.lease])).lost == [first.lease]
    assert await store.commit([done(first)]) == ["stale"]


async def test_an_abandoned_pop_is_reclaimed_ten_minutes_after_its_last_sign(store, tasks, clock):
    await store.enqueue(jobs("a"))
    tasks.insert_one(plain(clock, "b"))
    clock.advance(1)
    assert {pop(tasks, clock.now)["_id"], pop(tasks, clock.now)["_id"]} == {"a", "b"}
    clock.advance(TEN_MINUTES - 1)
    assert await store.seize(10, REAPER) == []
    clock.advance(1)
    seized = await store.seize(10, REAPER)
    assert sorted(each.id for each in seized) == ["a", "b"]
    assert await store.seize(10, BOB) == []
    outcomes = [decide(each, Lost(), await store.facts(), 0.5) for each in seized]
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
    gate = source(FRESH, Running("cap", 5))
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
    gate = source(FRESH, Running("cap", 1))
    await claim(store, gate, demand=0)
    monkeypatch.setattr("mulligan.stores.mongo.claiming.leased", crash)
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
    assert (await moving.get("a")).last_failure_reason == "boom"
    assert len(await moving.history("a")) == 1
    found = await moving.page(Selection(status="failed"), 10)
    assert [each.id for each in found.jobs] == ["b", "a"]
    assert (await moving.stats()).ended == {("default", "failed"): 2}
    assert await moving.enqueue(jobs("a")) == [("a", False)]
    assert await moving.purge(["b"]) == [True]
    assert await moving.get("b") is None


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
    assert decode_call((await start(store, FRESH)).body).args == [{"$a": 1}]


async def test_errors_do_not_show_the_password(monkeypatch):
    async def lose(*_):
        raise pymongo.errors.AutoReconnect("ann:s@cret (s%40cret) lost the connection")

    monkeypatch.setattr("mulligan.stores.mongo.schema.ensure", lose)
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
    from mulligan.stores.mongo.schema import INDEXES  # noqa: PLC0415 - only with the driver

    there = {each["name"]: list(each["key"]) for each in tasks.list_indexes()}
    assert there["status_created"] == ["status", "created_at"]
    assert there["next_retry"] == ["next_retry_at"]
    assert there["status_updated"] == ["status", "updated_at"]
    text = DOCUMENTATION.read_text(encoding="utf-8")
    for index in INDEXES:
        assert index.document["name"] in there
        assert f"`{index.document['name']}`" in text


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
        "indexes are missing: expires"
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
