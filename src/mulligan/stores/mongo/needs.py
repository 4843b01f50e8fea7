"""What the book may need to know: kinds of pages, how they are found, and in which order."""

from typing import Any

from msgspec import Struct

from mulligan.stores.mongo.document import Doc

# What the book needs to know: first which kind of thing, then of what.
Need = tuple[Any, ...]
# Kinds of which the first few are read, in an order.
LATER, READY, WAITING = "later", "ready", "waiting"
KEYS, IDLE, ALARMS = "keys", "idle", "alarms"
JOBS = "jobs"
# The other kinds: a page by its key, a job with what it owes, and the lanes that wait for a limit.
PAGE_OF, JOB, LANES_AT, WAITED_FOR, STATES = "page", "job", "lanes_at", "waited_for", "states"

BY_DUE = ("due", "sequence")
ORDERS: dict[str, tuple[str, ...]] = {
    LATER: BY_DUE,
    READY: BY_DUE,
    WAITING: ("turn", *BY_DUE),
    KEYS: ("turn", *BY_DUE),
    IDLE: ("turn", "key"),
    ALARMS: ("at", "limit"),
}


class MissingPageError(Exception):
    """The book needs something that was not read."""

    def __init__(self, need: Need) -> None:
        super().__init__(need)
        self.need = need


class Window(Struct):
    """The first documents of a kind, in order, and how many were read; all, if it is complete."""

    docs: list[Doc]
    read: int
    complete: bool


def query_of(need: Need) -> Doc:
    """Which pages are of this kind."""
    match need:
        case (str() as stage, lane) if stage == LATER:
            return {"lane": lane, "stage": LATER}
        case (str() as stage, lane, key) if stage == READY:
            return {"lane": lane, "stage": READY, "key": key}
        case (str() as stage, limit, lane) if stage == WAITING:
            return {"waits_for": limit, "lane": lane}
        case (kind, lane, number):
            return {"turns": lane, "round": number, "ready": kind == KEYS}
        case (_, lane):
            return {"rings": lane}
    raise AssertionError(need)


def need_of(doc: Doc) -> Need | None:
    """Of which kind the page is one of the first, if it is of such a kind."""
    if "stage" in doc:
        match doc["stage"]:
            case "later":
                return LATER, doc["lane"]
            case "ready":
                return READY, doc["lane"], doc["key"]
            case "waiting":
                return WAITING, doc["waits_for"], doc["lane"]
        return None
    if "turns" in doc:
        return KEYS if doc["ready"] else IDLE, doc["turns"], doc["round"]
    return (ALARMS, doc["rings"]) if "rings" in doc else None


def order_of(need: Need, doc: Doc) -> tuple[Any, ...]:
    """What pages of this kind are sorted by."""
    return tuple(doc[name] for name in ORDERS[need[0]])
