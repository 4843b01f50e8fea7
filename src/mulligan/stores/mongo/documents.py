"""Documents: the public fields that any program may rely on, and the private ones beside them.

`status`, `attempts`, `next_retry_at`, `created_at`, `updated_at` and `error` are the truth. What
`mulligan` holds beside them is finer (microseconds, lanes, tokens), and gives way to them.
"""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from mulligan.core.backoff import Delays
from mulligan.core.durations import seconds as plain_seconds
from mulligan.core.job import Attempt, Claim, Job, NewJob
from mulligan.core.lane import Lane
from mulligan.core.retry import Retry
from mulligan.stores.mongo.base import Doc, line_of
from mulligan.stores.mongo.times import date, date_after, micros, of_date, seconds

DEEPEST = 60
INT64 = 2**63
HELD = ""


class Shown(Struct):
    """The parts of a body that the public fields repeat."""

    args: Any = []
    kwargs: Any = {}
    retry: Raw = Raw(b"{}")


decode_shown = msgspec.json.Decoder(Shown).decode
decode_retry = msgspec.json.Decoder(Retry).decode


def new_document(new: NewJob, now: int, sequence: int) -> Doc:
    """The document of a job that is enqueued now."""
    due = micros(seconds(now) + new.delay) if new.delay else now
    private: Doc = {
        "queue": new.queue,
        "region": new.region,
        "task": new.task,
        "priority": int(new.priority),
        "body": new.body,
        "place": sequence,
        "created": now,
        "token": 0,
        "committed": 0,
        "replay": 0,
        "snoozes": 0,
        "worker": None,
        "permits": [],
        **standing(new.lane, due, sequence, delayed=due > now),
    }
    if new.unique_key is not None:
        private["unique_key"] = new.unique_key
    if new.concurrency_key is not None:
        private["key"] = new.concurrency_key
    if new.concurrency_key is not None or new.concurrency_limit != 1:
        private["key_limit"] = new.concurrency_limit
    if new.expires is not None:
        private["expires"] = micros(seconds(now) + new.expires)
    payload, policy = public_of(new.task, new.body)
    return {
        "_id": new.id,
        "payload": payload,
        "status": "pending",
        "created_at": date(now),
        "updated_at": date(now),
        "attempts": 0,
        "next_retry_at": date_after(due) if due > now else None,
        "backoff_policy": policy,
        "error": None,
        "mulligan": private,
    }


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
    except msgspec.MsgspecError:
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
    except (msgspec.MsgspecError, ValueError):
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


def untouched(doc: Doc) -> bool:
    """Whether a pending document still stands where mulligan put it."""
    private = doc["mulligan"]
    expected = date_after(private["due"]) if private.get("delayed") else None
    return bool(doc.get("next_retry_at") == expected)


def held_by_us(doc: Doc) -> bool:
    """Whether a worker of mulligan's holds the document, and no other program took it since."""
    private = doc.get("mulligan") or {}
    return (
        doc["status"] == "processing"
        and private.get("worker") is not None
        and bool(doc.get("updated_at") == private.get("touched"))
    )


def lane_of(doc: Doc) -> Lane:
    """The lane that the job stands in, or was last taken from."""
    private = doc["mulligan"]
    return Lane(private["queue"], private["scope"], private["lane_priority"])


def due_of(doc: Doc) -> int:
    """When a job falls due; where another program changed the date, the date is right."""
    private = doc["mulligan"]
    at = doc.get("next_retry_at")
    if doc["status"] != "pending" or untouched(doc) or at is None:
        return int(private["due"])
    return of_date(at)


def claim_of(doc: Doc) -> Claim:
    """The claim that the document stands for."""
    private = doc["mulligan"]
    return Claim(
        str(doc["_id"]),
        private["token"],
        private["queue"],
        private["task"],
        private["body"],
        private["region"],
        private["priority"],
        private["scope"],
        private["lane_priority"],
        seconds(private["due"]),
        int(doc.get("attempts") or 0),
        private["replay"],
        private["snoozes"],
        private.get("worker") or "",
        private.get("worker_region") or private["region"],
        seconds(private.get("started") or 0),
    )


def job_of(doc: Doc) -> Job:
    """The job as readers see it."""
    private = doc["mulligan"]
    error = doc.get("error")
    return Job(
        id=str(doc["_id"]),
        queue=private["queue"],
        task=private["task"],
        region=private["region"],
        priority=private["priority"],
        status=doc["status"],
        scope=private["scope"],
        lane_priority=private["lane_priority"],
        due=seconds(due_of(doc)),
        sequence=private["sequence"],
        token=private["token"],
        retry_count=int(doc.get("attempts") or 0),
        replay=private["replay"],
        snoozes=private["snoozes"],
        created_at=seconds(finer(private.get("created"), doc.get("created_at"))),
        body=private["body"],
        unique_key=private.get("unique_key"),
        concurrency_key=private.get("key"),
        concurrency_limit=private.get("key_limit", 1),
        held=doc["status"] == "pending" and bool(private.get("held")),
        expires_at=or_none(private.get("expires")),
        worker=private.get("worker") if doc["status"] == "processing" else None,
        worker_region=private.get("worker_region"),
        started_at=or_none(private.get("started")),
        last_retry_at=or_none(private.get("last_retry")),
        ended_at=or_none(ended_of(doc)),
        result=private.get("result"),
        last_failure_reason=str(error["message"]) if isinstance(error, dict) else None,
        cancel_reason=private.get("cancel_reason"),
    )


def ended_of(doc: Doc) -> int | None:
    """When it ended; by `updated_at` where another program ended it."""
    if doc["status"] in ("pending", "processing"):
        return None
    ended = doc["mulligan"].get("ended")
    if ended is None and doc.get("updated_at") is not None:
        return of_date(doc["updated_at"])
    return None if ended is None else int(ended)


def finer(private: int | None, public: Any) -> int:
    """The private microseconds, unless the public date has moved away from them."""
    if private is not None and (public is None or date(private) == public):
        return private
    return of_date(public)


def or_none(at: int | None) -> float | None:
    """Microseconds as seconds, where there are any."""
    return None if at is None else seconds(at)


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
