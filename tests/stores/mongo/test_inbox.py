"""Documents that other programs inserted: taken in, set aside or left alone."""

import bson
import pytest
from bson import Code, Int64, Regex
from bson.datetime_ms import DatetimeMS

from mulligan.core.job import decode_call, decode_policy
from mulligan.core.page import Selection
from mulligan.core.retry import Exponential
from mulligan.stores.mongo.document import TO_READ
from mulligan.stores.mongo.inbox import private_fields
from mulligan.stores.mongo.payload import MalformedError
from mulligan.stores.mongo.read import job_of
from tests.contract.builders import ANYONE, REAPER, again, claim, dead, done, job, names, start
from tests.store_kit import handle
from tests.stores.mongo.steps import RAW, moment, plain, without_outcome


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


async def test_a_document_may_say_how_long_it_is_kept(store, tasks, clock):
    for name, keep in (("short", 20), ("least", 0), ("parts", Int64(30)), ("none", None)):
        tasks.insert_one(plain(clock, name, keep=keep))
    claimed = (await claim(store, ANYONE, demand=4)).claims
    kept = {each.id: (await store.get(each.id)).keep for each in claimed}
    assert kept == {"short": 20, "least": 15, "parts": 30, "none": None}
    await store.commit([done(each) for each in claimed])
    clock.advance(21)
    assert await store.prune(3600.0, 100) == 2
    assert {each["_id"] for each in tasks.find()} == {"parts", "none"}


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
    "a policy's word": {"retry": {"max_retry": 1}},
    "a backoff's word": {"retry": {"backoff": {"type": "exponential", "bas": 1}}},
    "a word of the public policy": {"backoff_policy": {"base": 5}},
    "a base that is text": {"backoff_policy": {"base_sec": "5"}},
    "a base below nothing": {"backoff_policy": {"base_sec": -5}},
    "a keep that is text": {"keep": "a day"},
    "a keep below nothing": {"keep": -1},
    "a keep without end": {"keep": float("inf")},
    "a key of its own kind": {"_id": 7},
    "a key that is a document": {"_id": {"a": 1}},
    "a key that is code": {"_id": Code("x")},
    "a key with control characters": {"_id": "a\nb"},
    "a key that is too long": {"_id": "a" * 129},
    "private fields that are text": {"mulligan": "mine"},
    "private fields that are a list": {"mulligan": [{"lane": "x"}, {}]},
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


async def test_numbers_of_64_bits_in_a_payload_are_numbers(store, tasks, clock):
    tasks.insert_one(plain(clock, "a", payload={"task": "ask", "args": [2**40, Int64(7)]}))
    assert decode_call((await start(store, ANYONE)).body).args == [2**40, 7]


@pytest.mark.parametrize("private", [[], [1, 2], [[]], [{"lane": "x"}]], ids=repr)
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
    for key, private in (
        ("a", [{"expires_at": 1, **fields}]),
        ("b", {"expires_at": [1], **fields}),
    ):
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
