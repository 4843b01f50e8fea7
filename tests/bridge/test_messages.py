"""What a message says: as Celery and RQ wrote it, or why it is left to them."""

import base64
import json
import pickle
import tracemalloc
import zlib
from datetime import UTC, datetime
from decimal import Decimal
from math import inf, nan
from uuid import UUID

import pytest

from mulligan import Delays, Retry
from mulligan.contrib.bridge.celery_message import read_celery
from mulligan.contrib.bridge.message import LONGEST, REASON_LIMIT, Left, Message
from mulligan.contrib.bridge.rq_job import read_rq
from tests.bridge.messages import celery_message

# As Celery 5.7.0 wrote it: add.apply_async((1,), eta=…, expires=…, retries=2, time_limit=30)
RECORDED = (
    '{"body": "W1sxXSwge30sIHsiY2FsbGJhY2tzIjogbnVsbCwgImVycmJhY2tzIjogbnVsbCwgImNoYWluIjogbnVsbCwg'
    'ImNob3JkIjogbnVsbH1d", "content-encoding": "utf-8", "content-type": "application/json",'
    ' "headers": {"lang": "py", "task": "tasks.add", "id": "21d2e485-c67c-40a9-b4c0-f68b16cb7b0a",'
    ' "shadow": null, "eta": "2030-01-01T00:00:00+00:00", "expires": "2031-01-01T00:00:00+00:00",'
    ' "group": null, "group_index": null, "retries": 2, "timelimit": [30, null], "root_id":'
    ' "21d2e485-c67c-40a9-b4c0-f68b16cb7b0a", "parent_id": null, "argsrepr": "(1,)", "kwargsrepr":'
    ' "{}", "origin": "gen612@vm", "ignore_result": false, "replaced_task_nesting": 0,'
    ' "stamped_headers": null, "stamps": {}}, "properties": {"correlation_id":'
    ' "21d2e485-c67c-40a9-b4c0-f68b16cb7b0a", "reply_to": "5aebb813-43ff-3fbd-9bc5-009b4b81f5df",'
    ' "delivery_mode": 2, "expiration": "129986373615", "delivery_info": {"exchange": "",'
    ' "routing_key": "celery"}, "priority": 0, "body_encoding": "base64", "delivery_tag":'
    ' "a7853d48-590a-46e6-82ce-746c05310c54"}}'
)


def test_a_recorded_message_brings_its_eta_its_retries_and_its_limits():
    read = read_celery("celery", RECORDED, RECORDED)
    assert isinstance(read, Message)
    assert (read.id, read.task) == ("21d2e485-c67c-40a9-b4c0-f68b16cb7b0a", "tasks.add")
    assert (read.args, read.kwargs) == ([1], {})
    assert read.due == datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    assert read.expires_at == datetime(2031, 1, 1, tzinfo=UTC).timestamp()
    assert (read.retries, read.timeout) == (2, 30)


def test_what_a_worker_holds_is_the_same_message():
    held = json.dumps([json.loads(RECORDED), "", "celery"])
    read = read_celery("unacked", "tag", held)
    assert isinstance(read, Message)
    assert (read.task, read.member) == ("tasks.add", "tag")


def test_types_of_kombu_are_values_again():
    def marked(kind, value):
        return {"__type__": kind, "__value__": value}

    raw = celery_message(
        "t",
        marked("decimal", "1.5"),
        marked("datetime", "2020-01-01T00:00:00"),
        marked("uuid", {"hex": "0" * 32}),
        marked("bytes", "ä"),
        marked("base64", "/w=="),
        marked("date", "2020-01-01"),
        marked("time", "01:02:03"),
    )
    read = read_celery("celery", raw, raw)
    assert isinstance(read, Message)
    day = datetime(2020, 1, 1)  # noqa: DTZ001 - as it was sent
    assert read.args[:3] == [Decimal("1.5"), day, UUID(int=0)]
    assert read.args[3:5] == ["ä".encode(), b"\xff"]
    assert read.args[5:] == [day.date(), datetime(1, 1, 1, 1, 2, 3).time()]  # noqa: DTZ001


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (celery_message("t", content_type="application/x-python-serialize"), "pickled"),
        (celery_message("t", content_type="application/x-yaml"), "application/x-yaml"),
        (celery_message("t", compression="application/x-gzip"), "compressed"),
        (celery_message("t", after={"chain": [{"task": "u"}]}), "a chain"),
        (celery_message("t", after={"chord": {"task": "u"}}), "a chord"),
        (celery_message("t", after={"callbacks": [{"task": "u"}]}), "a link"),
        (celery_message("t", after={"errbacks": [{"task": "u"}]}), "a link_error"),
        (celery_message("t", {"__type__": "money", "__value__": 1}), "of type money"),
        (celery_message("t", eta="tomorrow"), "cannot be read"),
        (celery_message("t", retries="many"), "cannot be read"),
        ('{"body": "", "headers": {}, "properties": {}}', "protocol 2"),
        ("[]", "no message of Celery's"),
        ("no JSON", "no message of Celery's"),
        ("5", "no message of Celery's"),
    ],
)
def test_what_cannot_be_taken_over_says_why(raw, reason):
    read = read_celery("celery", raw, raw)
    assert isinstance(read, Left)
    assert reason in read.reason


def enveloped(body: object = None, **envelope: object) -> str:
    """A message of Celery's with this body, or these parts of its envelope."""
    made = json.loads(celery_message("t", 1)) | envelope
    if body is not None:
        made["body"] = base64.b64encode(json.dumps(body).encode()).decode()
    return json.dumps(made)


def marked_body(kind: object, value: object) -> list[object]:
    return [[{"__type__": kind, "__value__": value}], {}, {}]


@pytest.mark.parametrize(
    "raw",
    [
        "[" * 200_000,
        enveloped() + " " * LONGEST,
        enveloped(body="[" * 200_000),
        enveloped(properties=[]),
        enveloped(properties="x"),
        enveloped(marked_body("uuid", 5)),
        enveloped(marked_body(["uuid"], 5)),
        enveloped([[1], {}, ["callbacks"]]),
        enveloped([[1], {}, "callbacks"]),
        *(enveloped(**{"content-encoding": each}) for each in ("rot13", "none such", 5, "a\0")),
        *(celery_message("t", retries=each) for each in (10**30, -1, 1001, float("inf"), [1])),
        *(celery_message("t", timelimit=each) for each in (5, {"a": 1}, "x")),
        *(celery_message("t", id=each) for each in ("x" * 129, "a\x1b[2J", "\ud800")),
        celery_message("t" * 129),
    ],
    ids=lambda raw: str(len(raw)),
)
def test_no_message_of_a_stranger_stops_the_bridge(raw):
    read = read_celery("celery", raw, raw)
    assert isinstance(read, Left)
    assert len(read.reason) < 2 * REASON_LIMIT


def rq(call, due=None, dependents=0, **fields):
    data = call if isinstance(call, bytes) else json.dumps(call).encode()
    said = {b"data": zlib.compress(data), **{k.encode(): v for k, v in fields.items()}}
    return read_rq("rq:queue:default", "j1", said, due=due, dependents=dependents)


def test_a_job_of_rq_brings_its_arguments_and_when_it_is_due():
    read = rq(["tasks.add", None, [1], {"y": 2}], due=5.0)
    assert isinstance(read, Message)
    assert (read.id, read.task, read.args, read.kwargs) == ("j1", "tasks.add", [1], {"y": 2})
    assert (read.due, read.retry, read.retries) == (5.0, None, 0)


@pytest.mark.parametrize(
    ("left", "pauses", "delays"),
    [(3, "[10, 30, 60]", (10, 30, 60)), (3, "[10, 30]", (10, 10, 30)), (2, "null", (0, 0))],
)
def test_a_job_of_rq_has_the_retries_that_it_was_given_and_the_same_pauses(left, pauses, delays):
    read = rq(["t", None, [], {}], retries_left=str(left).encode(), retry_intervals=pauses.encode())
    assert isinstance(read, Message)
    assert read.retry == Retry(left, backoff=Delays(delays))


def test_retries_that_rq_has_used_are_used_here():
    read = rq(
        ["t", None, [], {}],
        retries_left=b"2",
        number_of_retries=b"1",
        retry_intervals=b"[10, 30, 60]",
    )
    assert isinstance(read, Message)
    assert read.retries == 1
    assert read.retry is not None
    assert read.retry.max_retries == 3
    assert [read.retry.backoff.delay(n, 0.0) for n in (2, 3)] == [30, 60]


@pytest.mark.parametrize(
    ("call", "more", "reason"),
    [
        (pickle.dumps(("t", None, (), {})), {}, "pickled"),
        (b"\xff\xfe", {}, "cannot be read"),
        (["t"], {}, "cannot be read"),
        (["t", "object", [], {}], {}, "a method"),
        (["t", None, [], {}], {"dependents": 2}, "other jobs depend on it"),
        (["t", None, [], {}], {"success_callback_name": b"f"}, "a callback"),
        (["t", None, [], {}], {"repeats_left": b"3"}, "repeats"),
    ],
)
def test_what_must_be_finished_by_rq_says_why(call, more, reason):
    read = rq(call, **more)
    assert isinstance(read, Left)
    assert reason in read.reason


CALL: list[object] = ["t", None, [], {}]


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (b"[" * 200_000, {}),
        (b" " * (LONGEST + 1), {}),
        (b"cos\nsystem\n(S'true'\ntR.", {}),
        (CALL, {"retries_left": b"100000000"}),
        (CALL, {"retries_left": b"1", "number_of_retries": b"1000000000000"}),
        (CALL, {"retries_left": b"2", "retry_intervals": b'{"a":1}'}),
        (CALL, {"retries_left": b"2", "retry_intervals": b"[" * 100_000}),
        (CALL, {"retries_left": b"-5", "number_of_retries": b"-5"}),
        (CALL, {"number_of_retries": b"1001"}),
        (CALL, {"due": inf}),
        (CALL, {"due": nan}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_no_job_of_a_stranger_stops_the_bridge(call, fields):
    read = rq(call, **fields)
    assert isinstance(read, Left)
    assert len(read.reason) < 2 * REASON_LIMIT


def test_no_more_of_a_compressed_job_is_expanded_than_is_read():
    bomb = zlib.compress(b" " * (64 * LONGEST))
    tracemalloc.start()
    try:
        read = read_rq("k", "j", {b"data": bomb}, due=None, dependents=0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(read, Left)
    assert most < 4 * LONGEST


def test_fields_of_a_job_that_are_no_text_do_not_matter():
    fields = {b"data": json.dumps(CALL).encode(), b"\xff": b"1"}
    assert isinstance(read_rq("k", "j", fields, due=None, dependents=0), Message)


def test_a_job_whose_hash_is_gone_is_left():
    assert isinstance(read_rq("k", "j", {}, due=None, dependents=0), Left)
