"""Unique keys of debounced and throttled jobs, whose rules are those of `core/unique.py`.

Both have the two locks of a key, as others do. A debounced job that has started keeps them until
somebody else wants the key: then it is given a queue of its own for its key, which no other job
has. A throttled one that has ended keeps the second lock.
"""

from typing import Any

from mulligan.core.job import NewJob
from mulligan.core.unique import debounced_due, holds_key
from mulligan.stores.mongo.bulk_write import Change
from mulligan.stores.mongo.document import (
    KEPT_KEY,
    NEVER_STARTED,
    RELEASE_KEY,
    STATUSES,
    Doc,
    date,
    is_time,
    lane_of,
    line_in,
    micros,
    private_names,
    public_date,
    seconds,
    standing,
)
from mulligan.stores.mongo.events import Event, joining, leaving, owing
from mulligan.stores.mongo.payload import public_of

# What is read of a job to know whether it holds its key, and to debounce it.
READ = {
    "status": 1,
    "attempts": 1,
    KEPT_KEY: 1,
    **{
        f"mulligan.{name}": 1
        for name in (
            *("snoozes", "replay", "token", "queue", "scope", "lane_priority", "lane", "outbox"),
            *("due", "sequence", "limits", "fairness_key"),
            *("unique_queue", "unique_key", "debounce_until", "unique_until", "calls"),
        )
    },
}


class Holder:
    """A document that had a unique key last, as the rules see it."""

    def __init__(self, doc: Doc) -> None:
        private = doc["mulligan"]
        self.status = doc["status"]
        self.retry_count = int(doc.get("attempts") or 0)
        self.snoozes = private.get("snoozes", 0)
        self.replay = private.get("replay", 0)
        self.debounce_until = time_of(private.get("debounce_until"))
        self.unique_until = time_of(private.get("unique_until"))


def time_of(value: Any) -> float | None:
    """A time as the rules know it."""
    return seconds(value) if is_time(value) else None


def holds(doc: Doc, now: int) -> bool:
    """Whether the job still holds its key; not where another program gave it an odd status."""
    return doc.get("status") in STATUSES and holds_key(Holder(doc), seconds(now))


def stays_taken(private: Doc, now: int) -> bool:
    """Whether the key of a job that is done or failed now is taken for a while."""
    until = private.get("unique_until")
    return is_time(until) and until > now


def own_queue(doc: Doc) -> str:
    """The queue of the key of a debounced job that has given its key away: nobody else's."""
    return f"{doc['mulligan']['queue']}\x1f{doc['_id']}"


def given_up(doc: Doc) -> Change:
    """The write by which a debounced job that has started gives its key away."""
    match = {"status": doc["status"], KEPT_KEY: doc["mulligan"].get("kept_key")}
    update = {"$set": {"mulligan.unique_queue": own_queue(doc)}, "$unset": dict(RELEASE_KEY)}
    return Change(doc["_id"], match, update, doc["mulligan"]["token"])


def call_of(doc: Doc) -> Doc:
    """The match that a debounced job was not called anew since it was read; nothing for others."""
    private = doc["mulligan"]
    return {"mulligan.calls": private.get("calls")} if "debounce_until" in private else {}


def keyless(doc: Doc) -> Doc:
    """A debounced job that does not have its key."""
    private = {name: value for name, value in doc["mulligan"].items() if name != "kept_key"}
    return doc | {"mulligan": private | {"unique_queue": own_queue(doc)}}


def debounced(doc: Doc, new: NewJob, now: int, sequence: int) -> tuple[Change, list[Event]]:
    """The write by which a debounced job that waits to start is called as a later one.

    `calls` fences it from a claim that has read
    the call before.
    """
    private = doc["mulligan"]
    payload, policy = public_of(new.task, new.body)
    fields: Doc = {
        "payload": payload,
        "backoff_policy": policy,
        "mulligan.task": new.task,
        "mulligan.body": new.body,
    }
    until = debounced_due(seconds(now), new.delay, seconds(private["debounce_until"]))
    due = micros(until)
    stand = standing(lane_of(doc), due, sequence, delayed=due > now, line=line_in(doc))
    fields |= private_names(stand)
    fields |= {
        "next_retry_at": public_date(stand),
        "updated_at": date(now),
        "mulligan.updated_at": date(now),
    }
    match = {"status": "pending", **NEVER_STARTED, "mulligan.lane": private["lane"]}
    match[KEPT_KEY] = private.get("kept_key")
    update = {"$set": fields, "$inc": {"mulligan.calls": 1}}
    change = Change(doc["_id"], match, update, private["token"], kept=True)
    line = line_in(doc)
    events = [] if line is None else [*leaving(doc, now), joining(doc["_id"], line, now)]
    owing(change, events)
    return change, events
