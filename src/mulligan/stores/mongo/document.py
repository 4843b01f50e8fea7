"""A job's document: how it is decoded, and what its public and private fields say.

`status`, `attempts`, `next_retry_at`, `created_at`, `updated_at` and `error` are the truth. The
private fields under `mulligan` are finer (microseconds, lanes, tokens), and give way to them.
Times are seconds in the contract, whole microseconds in private fields, and dates in public ones.

A unique key has two locks, each a unique index. The first (`unique_key`) is on for every job with
the key that has not ended, whoever ends it. The second (`kept_key`) is on until a job releases it.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeGuard

import bson
import msgspec
from bson import Int64, ObjectId
from bson.codec_options import CodecOptions, DatetimeConversion, TypeDecoder, TypeRegistry
from bson.raw_bson import RawBSONDocument

from mulligan.core.job import Attempt, first_token
from mulligan.core.lane import Lane
from mulligan.core.lines import LineName, line_of

Doc = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
LONGEST_LINE = 600
# No date can be written that is further from 1970, in microseconds: the year 9999 ends before.
LAST_DATE = 253_402_300_800 * SECOND


class WholeNumbers(TypeDecoder):
    """Numbers of 64 bits as plain ones: encoders of JSON do not know the driver's own kind."""

    bson_type = Int64

    def transform_bson(self, value: Any) -> int:
        """The same number."""
        return int(value)


# Dates beyond year 9999, and text that is no UTF-8, are decoded too.
TOLERANT: dict[str, Any] = {
    "tz_aware": True,
    "datetime_conversion": DatetimeConversion.DATETIME_AUTO,
    "unicode_decode_error_handler": "replace",
}
# For what is read.
TO_READ: CodecOptions[Doc] = CodecOptions(**TOLERANT, type_registry=TypeRegistry([WholeNumbers()]))
# For what is written back as a whole: each number keeps the size that its program gave it.
TO_WRITE: CodecOptions[Doc] = CodecOptions(**TOLERANT)
# For what is copied: it may hold values that Python has no type for.
TO_COPY: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument, **TOLERANT)


def micros(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * SECOND)


def seconds(at: int) -> float:
    """Microseconds as seconds, the float nearest to them."""
    return at / SECOND


def date(at: int) -> datetime:
    """The date of an event: the millisecond in which it happened."""
    return EPOCH + timedelta(milliseconds=at // 1000)


def date_after(at: int) -> datetime:
    """The date of something awaited: the first whole millisecond that is not before it."""
    return EPOCH + timedelta(milliseconds=-(-at // 1000))


def is_time(value: Any) -> TypeGuard[int]:
    """Whether it is a time in microseconds, of the years that a date can be of."""
    return isinstance(value, int) and abs(value) < LAST_DATE


def of_date(value: Any) -> int:
    """A date as microseconds; refuses what is none, and one outside the years 1 to 9999."""
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r:.80} is not a date of the years 1 to 9999")
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


STATUSES = ("pending", "processing", "done", "failed", "cancelled")
# The `lane` of a pending job that stands in none: it awaits others, or it is a tick that a change
# of its schedule has yet to place.
AWAITING, PLACING = "awaiting", "placing"
# Other programs take nothing before its date, and so leave a job alone that awaits something.
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
# What a member owes to the job that awaits it, until that job knows; that a failed one has told it,
# and may yet be replayed; and what a purge has begun.
ARRIVAL, TOLD, REMOVAL = "arrival", "told", "removal"
# `held_by_us` by any worker, and `never_started`, as queries.
HELD_BY_US = {
    "status": "processing",
    "mulligan.worker": {"$ne": None},
    "$expr": {"$eq": ["$updated_at", "$mulligan.updated_at"]},
}
NEVER_STARTED = {"attempts": 0, "mulligan.snoozes": 0, "mulligan.replay": 0}
# A job's token grows with its leases. `uncommitted` is by how much it has grown since the last
# lease whose outcome was written; before the first it is the token itself.
NEXT_TOKEN = {"mulligan.token": 1, "mulligan.uncommitted": 1}
# A document without what may be large in it.
LEAN = {
    "payload": 0,
    **{f"mulligan.{name}": 0 for name in ("body", "history", "result", "records")},
}
KEPT_KEY = "mulligan.kept_key"
RELEASE_KEY = {KEPT_KEY: ""}


# -- fields that are written together ------------------------------------------------------


def never_claimed(number: int) -> Doc:
    """The private fields of a job that was accepted under this number and never claimed."""
    return {
        "number": number,
        "token": first_token(number),
        "uncommitted": first_token(number),
        "replay": 0,
        "snoozes": 0,
        "worker": None,
        "permits": [],
    }


def standing(
    lane: Lane, due: int, sequence: int, *, delayed: bool, line: LineName | None = None
) -> Doc:
    """The private fields of a job that stands in a lane, or in a line of it."""
    return {
        "scope": lane.scope,
        "lane_priority": int(lane.priority),
        "lane": lane_name(lane) if line is None else line_text(line),
        "due": due,
        "sequence": sequence,
        "delayed": delayed,
    }


def awaiting(members: int, arrived: int = 0) -> Doc:
    """The private fields of a job that so many must arrive at before it joins its lane.

    `arrived` grows at least by one for each that arrives; the arrivals themselves are counted
    once it says that all may be there.
    """
    return {"lane": AWAITING, "sequence": 0, "awaits": members, "arrived": arrived}


def ended(status: str, now: int, reason: str | None = None, keep: Any = None) -> Doc:
    """The fields of a job that has ended; `keep` is how many seconds it says it is kept."""
    fields: Doc = {
        "status": status,
        "updated_at": date(now),
        "next_retry_at": None,
        "mulligan.ended_at": now,
        "mulligan.worker": None,
        "mulligan.permits": [],
    }
    if reason is not None:
        fields["mulligan.cancel_reason"] = reason
    if isinstance(keep, int):
        fields["mulligan.keep_until"] = now + keep * SECOND
    return fields


def failure_fields(failure: Attempt, now: int) -> tuple[Doc, Doc]:
    """A failed attempt as the public `error`, and as an entry of the history."""
    entry: Doc = msgspec.to_builtins(failure)
    entry = {key: encodable(value) for key, value in entry.items()} | {"ended_at": seconds(now)}
    error = {
        "message": entry["message"],
        "code": entry.get("code"),
        "at": date(now),
        "type": entry["type"],
    }
    return error, entry


def encodable(value: Any) -> Any:
    """Text without lone surrogates, which no BSON string may hold."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def private_names(fields: Doc) -> Doc:
    """Private fields as an update names them."""
    return {f"mulligan.{name}": value for name, value in fields.items()}


# -- names ---------------------------------------------------------------------------------


def lane_name(lane: Lane) -> str:
    """The lane as documents name it; names have no control characters: it is never ambiguous."""
    return f"{lane.priority}\x1f{lane.queue}\x1f{lane.scope}"


@lru_cache(1024)
def lane_from(name: str) -> Lane:
    """The lane of this name."""
    priority, queue, scope = name.split("\x1f")
    return Lane(queue, scope, int(priority))


@lru_cache(4096)
def line_text(name: LineName) -> str:
    """The line as documents name it: its lane, its fairness key and its limits, as unambiguous.

    It begins as no other lane does. A long one is cut short: servers index so much and no more.
    """
    text = "\x1f".join((lane_name(name.lane), name.key, *name.limits))
    if len(text.encode()) <= LONGEST_LINE:
        return text
    return f"{lane_name(name.lane)}\x1f\x1e{sha256(text.encode()).hexdigest()}"


def in_lines_of(lane: Lane) -> Doc:
    """The `lane` of a job that stands in any line of the lane, as a query."""
    return {"$gte": lane_name(lane) + "\x1f", "$lt": lane_name(lane) + "\x20"}


def key_name(queue: str, key: str) -> str:
    """The unique key of a queue as documents name it, as unambiguous."""
    return f"{queue}\x1f{key}"


# -- what a document says ------------------------------------------------------------------


def private_of(doc: Doc) -> Doc:
    """The private fields, none where another program keeps something else under their name."""
    private = doc.get("mulligan")
    return private if isinstance(private, dict) else {}


def is_job_key(key: Any) -> bool:
    """Return whether the key of a document can be a job's id.

    Code is decoded as a subclass of `str` that cannot be hashed, so only the exact types are keys.
    """
    return type(key) in (str, ObjectId)


def is_taken_in(doc: Doc) -> bool:
    """Whether mulligan has written private fields to the document, valid or not by now."""
    return "body" in private_of(doc)


def job_number(doc: Doc) -> int:
    """The job's number; 0 where another program has put something else."""
    number = private_of(doc).get("number")
    return number if isinstance(number, int) else 0


def lane_of(doc: Doc) -> Lane:
    """The lane that the job stands in, or was last taken from."""
    private = doc["mulligan"]
    return Lane(private["queue"], private["scope"], private["lane_priority"])


def line_in(doc: Doc, lane: Lane | None = None) -> LineName | None:
    """The line that the job stands in while it is pending in its lane, or in another; if any."""
    private = doc["mulligan"]
    lane = lane_of(doc) if lane is None else lane
    return line_of(lane, private.get("fairness_key"), private.get("limits"))


def stands_in_line(doc: Doc) -> bool:
    """Whether the job is one that stands in lines: it names limits, or has a fairness key."""
    private = private_of(doc)
    return private.get("limits") is not None or private.get("fairness_key") is not None


def own_lane(doc: Doc) -> Lane:
    """The lane that the job was enqueued into."""
    private = doc["mulligan"]
    return Lane(private["queue"], private["region"], private["priority"])


def unique_key_of(doc: Doc) -> str | None:
    """The name of the unique key that the job holds until it has ended."""
    private = doc["mulligan"]
    if "unique_key" not in private or "unique_queue" not in private:
        return None  # only another program writes one without the other
    return key_name(private["unique_queue"], private["unique_key"])


def last_written(doc: Doc) -> int:
    """The token of the last lease whose outcome was written."""
    private = doc["mulligan"]
    return int(private["token"] - private.get("uncommitted", 0))


def permits_of(doc: Doc) -> list[str]:
    """The limits whose permits the job holds; what is no name of one was put there by others."""
    permits = private_of(doc).get("permits")
    # Code that is kept as a value is a text too, and of no use as a name.
    return [each for each in permits if type(each) is str] if isinstance(permits, list) else []


def public_date(private: Doc) -> datetime | None:
    """`next_retry_at` of a pending job."""
    if private.get("lane") in (AWAITING, PLACING):
        return NEVER
    return date_after(private["due"]) if private.get("delayed") else None


def untouched(doc: Doc) -> bool:
    """Whether a pending document still stands where mulligan put it, by its dates."""
    private = doc["mulligan"]
    updated = private.get("updated_at")
    return bool(
        doc.get("next_retry_at") == public_date(private)
        and (updated is None or is_same(doc.get("updated_at"), updated))
    )


def is_awaiting(doc: Doc) -> bool:
    """Whether the job has yet to join its lane, when the last that it awaits has arrived."""
    return bool(doc.get("status") == "pending" and private_of(doc).get("lane") == AWAITING)


def held_by_us(doc: Doc) -> bool:
    """Whether a worker of mulligan's holds the document, and no other program took it since."""
    private = private_of(doc)
    return (
        doc.get("status") == "processing"
        and private.get("worker") is not None
        and is_same(doc.get("updated_at"), private.get("updated_at"))
    )


def is_same(one: Any, other: Any) -> bool:
    """Whether the server takes two values for the same; to it NaN equals itself."""
    return bool(one == other) or bson.encode({"": one}) == bson.encode({"": other})


def updated_of(doc: Doc) -> int | None:
    """When somebody last changed the document, as far as it says."""
    updated = doc.get("updated_at")
    return of_date(updated) if isinstance(updated, datetime) else None


def ended_of(doc: Doc) -> int | None:
    """When it ended; by `updated_at` where another program ended it."""
    if doc["status"] in ("pending", "processing"):
        return None
    at = private_of(doc).get("ended_at")
    return at if is_time(at) else updated_of(doc)
