"""Whether what a document holds can be what mulligan wrote there."""

from typing import Any

from bson import ObjectId

from mulligan.core.lane import Priority
from mulligan.stores.mongo.base import Doc, line_of
from mulligan.stores.mongo.documents import AWAITING, HELD, lane_of
from mulligan.stores.mongo.times import LAST_DATE

KINDS: dict[str, type] = {
    **dict.fromkeys(("queue", "task", "region", "scope"), str),
    **dict.fromkeys(("priority", "lane_priority", "due", "sequence", "token"), int),
    **dict.fromkeys(("replay", "snoozes"), int),
}
# These may be absent: the body of a document that was read without it, what no outcome has left.
OPTIONAL: dict[str, type] = {
    "body": bytes,
    "since": int,
    **dict.fromkeys(("key_limit", "awaits", "arrived", "gather_index"), int),
    **dict.fromkeys(("stamps", "permits"), list),
    **dict.fromkeys(("owes", "gather", "unique_queue", "keeps", "permit"), str),
}
# These may be null too.
NULLABLE: dict[str, type] = {
    **dict.fromkeys(("trail", "key", "unique_key", "worker", "worker_region"), str),
    **dict.fromkeys(("expires", "started"), int),
}
PRIORITIES = frozenset(Priority)
# Times, in microseconds.
TIMES = ("due", "expires", "started")
# The largest number that the server counts in.
LAST = 2**63 - 1
WORDS = {str: "text", int: "a whole number", bytes: "binary", list: "a list"}
REMEDY = "find out what else writes it"


def damage_in(doc: Doc) -> str | None:
    """What is wrong with the fields that a claim needs, by whatever hand; None if nothing is."""
    if damage := of_another_key(doc):
        return damage
    private: Any = doc.get("mulligan")
    if not isinstance(private, dict):
        return f"mulligan {private!r:.80} is not what mulligan keeps there; {REMEDY}"
    if damage := of_another_kind(private) or beyond_what_there_is(private):
        return damage
    line = private.get("line")
    standing = (None, HELD, AWAITING, line_of(lane_of(doc)))
    if doc.get("status") == "pending" and line not in standing:
        return "mulligan.line is not the lane that queue, scope and lane_priority name"
    attempts = doc.get("attempts")
    if attempts is not None and not is_count(attempts):
        return f"attempts {attempts!r:.80} must be a whole number, 0 or more"
    return None


def of_another_key(doc: Doc) -> str | None:
    """What is wrong with the kind of key that the document has; None if it can be a job's id."""
    if isinstance(doc["_id"], str | ObjectId):
        return None
    return f"_id is a {type(doc['_id']).__name__}; use text or an ObjectId"


def of_another_kind(private: Doc) -> str | None:
    """The first of the private fields that is not of its kind; None if all are."""
    for name, kind in KINDS.items():
        if not isinstance(private.get(name), kind):
            return told(name, private.get(name), kind)
    for name, kind in OPTIONAL.items():
        if name in private and not isinstance(private[name], kind):
            return told(name, private[name], kind)
    for name, kind in NULLABLE.items():
        if not isinstance(private.get(name), kind | None):
            return told(name, private[name], kind)
    return None


def beyond_what_there_is(private: Doc) -> str | None:
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


def is_count(value: Any) -> bool:
    """Whether it counts something; some drivers write every number as a float."""
    return isinstance(value, int | float) and 0 <= value < LAST and value == int(value)


def told(name: str, value: Any, kind: type) -> str:
    """The field, its value and what it must be."""
    return f"mulligan.{name} {value!r:.80} must be {WORDS[kind]}; {REMEDY}"
