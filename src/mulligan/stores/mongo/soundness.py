"""Whether what a document holds can be what mulligan wrote there."""

from typing import Any

from mulligan.stores.mongo.base import Doc

KINDS: dict[str, type] = {
    **dict.fromkeys(("queue", "task", "region", "scope"), str),
    **dict.fromkeys(("priority", "lane_priority", "due", "sequence", "token"), int),
    **dict.fromkeys(("replay", "snoozes"), int),
}
# These may be absent: the body of a document that was read without it, what no failure has left.
OPTIONAL: dict[str, type] = {"body": bytes, "trail": str, "expires": int, "key": str}
# The largest number that the server counts in.
LAST = 2**63 - 1
WORDS = {str: "text", int: "a whole number", bytes: "binary"}


def damage_in(doc: Doc) -> str | None:
    """What is wrong with the fields that a claim needs, by whatever hand; None if nothing is."""
    private: Any = doc["mulligan"]
    for name, kind in KINDS.items():
        if not isinstance(private.get(name), kind):
            return told(name, private.get(name), kind)
    for name, kind in OPTIONAL.items():
        value = private.get(name)
        if not (isinstance(value, kind) or (value is None and name != "body")) and name in private:
            return told(name, value, kind)
    if private["token"] >= LAST:
        return f"mulligan.token {LAST} has none after it; find out what else writes it"
    attempts = doc.get("attempts")
    if attempts is not None and not is_count(attempts):
        return f"attempts {attempts!r:.80} must be a whole number, 0 or more"
    return None


def is_count(value: Any) -> bool:
    """Whether it counts something; some drivers write every number as a float."""
    return isinstance(value, int | float) and value >= 0 and value == int(value)


def told(name: str, value: Any, kind: type) -> str:
    """The field, its value and what it must be."""
    return f"mulligan.{name} {value!r:.80} must be {WORDS[kind]}; find out what else writes it"
