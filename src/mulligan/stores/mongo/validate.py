"""Whether the private fields of a document are still what mulligan wrote there."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from bson import Code
from msgspec import UNSET, UnsetType
from pymongo import UpdateMany

from mulligan.core.lane import Priority
from mulligan.stores.mongo.bulk_write import Change, write
from mulligan.stores.mongo.connection import Connection
from mulligan.stores.mongo.document import (
    AWAITING,
    LAST_DATE,
    PLACING,
    Doc,
    is_job_key,
    lane_name,
    lane_of,
    line_in,
    line_text,
    untouched,
)
from mulligan.stores.mongo.fields import ALWAYS, PRIVATE, TYPES
from mulligan.stores.mongo.payload import INT64, is_count

# What readers alone need is not checked: what another program put there is shown as missing.
CHECKED = [field for field in PRIVATE if not field.readers_only]
# A document that was read without its body has none; the others are this store's own.
OWN: dict[str, type] = {
    "body": bytes,
    **dict.fromkeys(("uncommitted", "arrived"), int),
    **dict.fromkeys(("stamps", "permits", "unbooked"), list),
    **dict.fromkeys(("owes", "gather", "unique_queue", "kept_key", "permit_stamp"), str),
}
OTHERS = [field for field in CHECKED if field.name not in OWN]
REQUIRED = {f.name: TYPES[f.kind] for f in OTHERS if f.default is UNSET or f.name in ALWAYS}
# These may be absent, and those whose default is nothing may be null too.
REST = [field for field in OTHERS if field.name not in REQUIRED]
OPTIONAL = OWN | {f.name: TYPES[f.kind] for f in REST if f.kind == "integer"}
NULLABLE = {f.name: TYPES[f.kind] for f in REST if f.kind != "integer"}
TIMES = [field.name for field in OTHERS if field.kind == "time"]
# All of these as a struct, to check a document in one call.
Kinds = msgspec.defstruct(
    "Kinds",
    [
        *REQUIRED.items(),
        *((name, kind | UnsetType, UNSET) for name, kind in OPTIONAL.items()),
        *((name, kind | None, None) for name, kind in NULLABLE.items()),
    ],
)
PRIORITIES = frozenset(Priority)
# The largest number that the server counts in.
LAST = INT64 - 1
WORDS = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    bytes: "binary",
    list: "a list",
}
REMEDY = "find out what else writes it"
# The type that an operator adds to, as the server calls it.
ADDS_TO = {"$push": "array", "$inc": "number"}


def invalid_reason(doc: Doc) -> str | None:
    """What is wrong with the fields that a claim needs, whoever wrote them; None if nothing is."""
    if reason := invalid_key(doc):
        return reason
    private: Any = doc.get("mulligan")
    if not isinstance(private, dict):
        return f"mulligan {private!r:.80} is not what mulligan keeps there; {REMEDY}"
    if reason := invalid_kind(private) or out_of_range(private):
        return reason
    if reason := invalid_standing(doc):
        return reason
    attempts = doc.get("attempts")
    if attempts is not None and not is_count(attempts):
        return f"attempts {attempts!r:.80} must be a whole number, 0 or more"
    return None


def invalid_standing(doc: Doc) -> str | None:
    """What is wrong with where the document says that it stands; None if nothing is."""
    private = doc["mulligan"]
    try:
        line = line_in(doc)
    except msgspec.MsgspecError as error:
        return f"mulligan.limits {private['limits']!r:.80} are none ({error}); {REMEDY}"
    place = lane_name(lane_of(doc)) if line is None else line_text(line)
    standing = (None, AWAITING, PLACING, place)
    if doc.get("status") == "pending" and private.get("lane") not in standing:
        return "mulligan.lane is not the lane that queue, scope and lane_priority name"
    return None


def stands_as_put(doc: Doc) -> bool:
    """Whether a document stands as mulligan has put it: neither moved by others nor invalid."""
    return invalid_reason(doc) is None and untouched(doc)


def invalid_key(doc: Doc) -> str | None:
    """What is wrong with the kind of key that the document has; None if it can be a job's id."""
    if is_job_key(doc["_id"]):
        return None
    return f"_id is a {type(doc['_id']).__name__}; use text or an ObjectId"


def invalid_kind(private: Doc) -> str | None:
    """The first of the private fields that is not of its kind; None if all are."""
    if Code in map(type, private.values()):  # a text that is none: it cannot be a key, nor be sent
        name = next(name for name, value in private.items() if type(value) is Code)
        return f"mulligan.{name} {private[name]!r:.80} is code; {REMEDY}"
    with suppress(msgspec.ValidationError):
        msgspec.convert(private, Kinds, builtin_types=(bytes,))
        return None
    for name, kind in REQUIRED.items():
        if not isinstance(private.get(name), kind):
            return must_be(name, private.get(name), kind)
    for name, kind in OPTIONAL.items():
        if name in private and not isinstance(private[name], kind):
            return must_be(name, private[name], kind)
    for name, kind in NULLABLE.items():
        if not isinstance(private.get(name), kind | None):
            return must_be(name, private[name], kind)
    return None


def out_of_range(private: Doc) -> str | None:
    """The first of the numbers that is too large for what it says; None if none is."""
    if private["token"] >= LAST:
        return f"mulligan.token {LAST} has none after it; {REMEDY}"
    for name in ("priority", "lane_priority"):
        if private[name] not in PRIORITIES:
            return f"mulligan.{name} {private[name]} is not one of 0 to 3; {REMEDY}"
    for name in TIMES:
        if abs(private.get(name) or 0) >= LAST_DATE:
            return f"mulligan.{name} {private[name]} is beyond the year 9999; {REMEDY}"
    return None


def must_be(name: str, value: Any, kind: type) -> str:
    """The field, its value and what it must be."""
    return f"mulligan.{name} {value!r:.80} must be {WORDS[kind]}; {REMEDY}"


async def set_invalid_aside(connection: Connection, changes: Sequence[Change]) -> bool:
    """Rename what these changes cannot add to to `FIELD_invalid`; whether there was any.

    The server refuses such a change whenever it is sent, and its worker would send it for ever.
    """
    keys = [change.key for change in changes]
    writes = [
        UpdateMany(
            {"_id": {"$in": keys}, field: {"$exists": True, "$not": {"$type": kind}}},
            {"$rename": {field: f"{field}_invalid"}},
        )
        for field, kind in sorted(set(added_to(changes)))
    ]
    return bool(writes) and (await write(connection.tasks, writes)).documents > 0


def added_to(changes: Sequence[Change]) -> Iterator[tuple[str, str]]:
    """The fields that these add to, each with the kind that it must be of."""
    for change in changes:
        for operator, kind in ADDS_TO.items():
            for field in change.update.get(operator, ()):
                yield field, kind
