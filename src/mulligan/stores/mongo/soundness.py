"""Whether what a document holds can be what mulligan wrote there."""

from typing import Any

from mulligan.stores.mongo.base import Doc, line_of
from mulligan.stores.mongo.documents import AWAITING, HELD, lane_of

KINDS: dict[str, type] = {
    **dict.fromkeys(("queue", "task", "region", "scope"), str),
    **dict.fromkeys(("priority", "lane_priority", "due", "sequence", "token"), int),
    **dict.fromkeys(("replay", "snoozes"), int),
}
# These may be absent: the body of a document that was read without it, what no outcome has left.
OPTIONAL: dict[str, type] = {"body": bytes, "stamps": list, "since": int}
# These may be null too.
NULLABLE: dict[str, type] = {"trail": str, "expires": int, "key": str}
# The largest number that the server counts in.
LAST = 2**63 - 1
WORDS = {str: "text", int: "a whole number", bytes: "binary", list: "a list"}


def damage_in(doc: Doc) -> str | None:
    """What is wrong with the fields that a claim needs, by whatever hand; None if nothing is."""
    private: Any = doc["mulligan"]
    if damage := of_another_kind(private):
        return damage
    line = private.get("line")
    if doc["status"] == "pending" and line not in (None, HELD, AWAITING, line_of(lane_of(doc))):
        return "mulligan.line is not the lane that queue, scope and lane_priority name"
    if private["token"] >= LAST:
        return f"mulligan.token {LAST} has none after it; find out what else writes it"
    attempts = doc.get("attempts")
    if attempts is not None and not is_count(attempts):
        return f"attempts {attempts!r:.80} must be a whole number, 0 or more"
    return None


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


def is_count(value: Any) -> bool:
    """Whether it counts something; some drivers write every number as a float."""
    return isinstance(value, int | float) and value >= 0 and value == int(value)


def told(name: str, value: Any, kind: type) -> str:
    """The field, its value and what it must be."""
    return f"mulligan.{name} {value!r:.80} must be {WORDS[kind]}; find out what else writes it"
