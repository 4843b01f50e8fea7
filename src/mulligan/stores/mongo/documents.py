"""Documents: the public fields that any program may rely on, and the private ones beside them.

`status`, `attempts`, `next_retry_at`, `created_at`, `updated_at` and `error` are the truth. What
`mulligan` holds beside them is finer (microseconds, lanes, tokens), and gives way to them.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import bson
import msgspec
from msgspec import Raw, Struct

from mulligan.core.backoff import Delays
from mulligan.core.durations import seconds as plain_seconds
from mulligan.core.errors import UNREADABLE
from mulligan.core.job import Attempt, NewJob, first_token
from mulligan.core.lane import Lane
from mulligan.core.retry import Retry
from mulligan.stores.mongo.base import Doc, line_of
from mulligan.stores.mongo.times import date, date_after, micros, seconds
from mulligan.stores.mongo.unique import word_of

DEEPEST = 60
INT64 = 2**63
# Where a pending job stands that is in no lane: set aside by its key, or awaiting others.
HELD, AWAITING = "", "awaiting"
# Other programs take nothing before its date, and so leave what awaits others alone.
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
# What a member owes to the job that awaits it, until that job knows; and what a purge has begun.
ARRIVAL, REMOVAL = "arrival", "removal"
# `held_by_us` but for whom, and `never_started`, as queries.
HELD_BY_US = {
    "status": "processing",
    "mulligan.worker": {"$ne": None},
    "$expr": {"$eq": ["$updated_at", "$mulligan.touched"]},
}
NEVER_STARTED = {"attempts": 0, "mulligan.snoozes": 0, "mulligan.replay": 0}
# A job's token grows with its leases. `since` is how many it has had since the last whose outcome
# was written: all, while there was none.
NEXT_TOKEN = {"mulligan.token": 1, "mulligan.since": 1}
# A document without what may be large in it.
LEAN = {"mulligan.body": 0, "payload": 0, "mulligan.history": 0, "mulligan.result": 0}


class Shown(Struct):
    """The parts of a body that the public fields repeat."""

    args: Any = []
    kwargs: Any = {}
    retry: Raw = Raw(b"{}")


decode_shown = msgspec.json.Decoder(Shown).decode
decode_retry = msgspec.json.Decoder(Retry).decode


def new_document(new: NewJob, now: int, sequence: int) -> Doc:
    """The document of a job that is enqueued now."""
    due = micros(seconds(now) + new.delay) if new.delay and not new.awaits else now
    private: Doc = {
        "queue": new.queue,
        "region": new.region,
        "task": new.task,
        "priority": int(new.priority),
        "body": new.body,
        "place": sequence,
        "created": now,
        "token": first_token(sequence),
        "since": first_token(sequence),
        "replay": 0,
        "snoozes": 0,
        "worker": None,
        "permits": [],
        "touched": date(now),
        **standing(new.lane, due, sequence, delayed=due > now),
        **rarer_fields(new, now),
    }
    payload, policy = public_of(new.task, new.body)
    return {
        "_id": new.id,
        "payload": payload,
        "status": "pending",
        "created_at": date(now),
        "updated_at": date(now),
        "attempts": 0,
        "next_retry_at": public_date(private),
        "backoff_policy": policy,
        "error": None,
        "mulligan": private,
    }


def rarer_fields(new: NewJob, now: int) -> Doc:
    """The private fields that most jobs do without."""
    fields: Doc = {
        "unique_key": new.unique_key,
        "unique_in": new.unique_in,
        "unique_queue": None if new.unique_key is None else new.key_queue,
        "keeps": None if new.unique_key is None else word_of(new.key_queue, new.unique_key),
        "key": new.concurrency_key,
        "gather": new.gather,
        "owes": ARRIVAL if new.gather else None,
        "expires": None if new.expires is None else micros(seconds(now) + new.expires),
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    if new.concurrency_key is not None or new.concurrency_limit != 1:
        fields["key_limit"] = new.concurrency_limit
    if new.gather_index:
        fields["gather_index"] = new.gather_index
    return fields | (awaiting(new.awaits) if new.awaits else {})


def awaiting(members: int, arrived: int = 0) -> Doc:
    """The private fields of a job that so many must arrive at before it joins its lane.

    `arrived` grows at least by one for each that arrives; the arrivals themselves are counted
    once it says that all may be there.
    """
    return {"line": AWAITING, "sequence": 0, "awaits": members, "arrived": arrived}


def standing(lane: Lane, due: int, sequence: int, *, delayed: bool) -> Doc:
    """The private fields of a job that stands in a lane."""
    return {
        "scope": lane.scope,
        "lane_priority": int(lane.priority),
        "line": line_of(lane),
        "due": due,
        "sequence": sequence,
        "delayed": delayed,
        "held": False,
    }


def public_of(task: str, body: bytes) -> tuple[Doc, Doc]:
    """The payload and the backoff policy as other programs read them."""
    try:
        shown = decode_shown(body)
    except UNREADABLE:
        return {"task": task}, policy_document(b"{}")
    if storable(shown.args) and storable(shown.kwargs):
        payload = {"task": task, "args": shown.args, "kwargs": shown.kwargs}
    else:
        text = msgspec.json.encode({"args": shown.args, "kwargs": shown.kwargs}).decode()
        payload = {"task": task, "json": text}
    return payload, dict(policy_document(bytes(shown.retry)))


def storable(value: object, depth: int = 0) -> bool:
    """Whether every MongoDB keeps the value as it is: no operators, dots or huge numbers."""
    if depth > DEEPEST:
        return False
    if isinstance(value, dict):
        return all(
            not (key.startswith("$") or "." in key or "\0" in key) and storable(each, depth + 1)
            for key, each in value.items()
        )
    if isinstance(value, list):
        return all(storable(each, depth + 1) for each in value)
    return not isinstance(value, int) or -INT64 <= value < INT64


@lru_cache(maxsize=512)
def policy_document(retry: bytes) -> Doc:
    """The policy in the four public words; lists and sessions are told by their first curve."""
    try:
        backoff = decode_retry(retry).backoff
    except UNREADABLE:
        backoff = Retry().backoff
    if isinstance(backoff, Delays):
        first, last = plain_seconds(backoff.seconds[0]), plain_seconds(backoff.seconds[-1])
        return {"base_sec": first, "factor": 1.0, "max_sec": last, "jitter": "none"}
    return {
        "base_sec": plain_seconds(backoff.base),
        "factor": float(backoff.factor),
        "max_sec": None if backoff.max is None else plain_seconds(backoff.max),
        "jitter": backoff.jitter,
    }


def public_date(private: Doc) -> datetime | None:
    """`next_retry_at` of a pending job."""
    if private.get("line") == AWAITING:
        return NEVER
    return date_after(private["due"]) if private.get("delayed") else None


def untouched(doc: Doc) -> bool:
    """Whether a pending document still stands where mulligan put it, by its dates."""
    private = doc["mulligan"]
    touched = private.get("touched")
    return bool(
        doc.get("next_retry_at") == public_date(private)
        and (touched is None or is_same(doc.get("updated_at"), touched))
    )


def is_awaiting(doc: Doc) -> bool:
    """Whether the job has yet to join its lane, when the last that it awaits has arrived."""
    return bool(doc.get("status") == "pending" and private_of(doc).get("line") == AWAITING)


def private_of(doc: Doc) -> Doc:
    """The private fields, none where another program keeps something else under their name."""
    private = doc.get("mulligan")
    return private if isinstance(private, dict) else {}


def is_known(doc: Doc) -> bool:
    """Whether mulligan has written private fields to the document, be they damaged since."""
    return "body" in private_of(doc)


def held_by_us(doc: Doc) -> bool:
    """Whether a worker of mulligan's holds the document, and no other program took it since."""
    private = private_of(doc)
    return (
        doc.get("status") == "processing"
        and private.get("worker") is not None
        and is_same(doc.get("updated_at"), private.get("touched"))
    )


def permits_of(doc: Doc) -> list[str]:
    """The gates whose permits the job holds; what is no name of one was put there by others."""
    permits = private_of(doc).get("permits")
    return [each for each in permits if isinstance(each, str)] if isinstance(permits, list) else []


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are one to the server, to whom NaN is like itself."""
    return bool(one == other) or bson.encode({"": one}) == bson.encode({"": other})


def last_written(doc: Doc) -> int:
    """The token of the last lease whose outcome was written."""
    private = doc["mulligan"]
    return int(private["token"] - private.get("since", 0))


def lane_of(doc: Doc) -> Lane:
    """The lane that the job stands in, or was last taken from."""
    private = doc["mulligan"]
    return Lane(private["queue"], private["scope"], private["lane_priority"])


def own_lane(doc: Doc) -> Lane:
    """The lane that the job was enqueued into."""
    private = doc["mulligan"]
    return Lane(private["queue"], private["region"], private["priority"])


def failure_fields(failure: Attempt, now: int) -> tuple[Doc, Doc]:
    """A failed attempt as the public `error`, and as an entry of the history."""
    entry: Doc = msgspec.to_builtins(failure)
    entry = {key: plain(value) for key, value in entry.items()} | {"ended_at": seconds(now)}
    error = {
        "message": entry["message"],
        "code": entry.get("code"),
        "at": date(now),
        "type": entry["type"],
    }
    return error, entry


def plain(value: Any) -> Any:
    """Text without lone surrogates, which no BSON string may hold."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
