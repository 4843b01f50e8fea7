"""Events: what happened to jobs that the book of lines and limits must know.

A job owes the book each of them from the write on by which it happened, in its own document, and
until the book knows: the change of the book that says so takes it from the job. So none is lost
with its process, and none counts twice. Whoever finds a job that has owed one for a while tells it.

Only the end of a lease is not owed, unless something is to be refunded: a permit names its lease,
so that one which nobody frees is found, and none can be freed twice.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from mulligan.core.lines import LineName
from mulligan.core.outcome import LimitUse
from mulligan.core.validation import INVALID_RECORD
from mulligan.stores.mongo.bulk_write import Change, new_stamp, stamped_at
from mulligan.stores.mongo.document import (
    Doc,
    is_job_key,
    lane_from,
    lane_name,
    line_in,
    line_text,
)

UNBOOKED = "mulligan.unbooked"
JOINED, LEFT, ENDED, USED = "joined", "left", "ended", "used"


class Event(Struct, frozen=True):
    """Something that happened to the job of this key, and the line that it is about, if any."""

    key: Any
    id: str
    kind: str
    line: LineName | None = None
    data: Doc = {}

    @property
    def owed(self) -> bool:
        """Whether the job must remember it. That a lease is over is seen by its permits."""
        return self.kind != ENDED or self.data["since"] is not None

    @property
    def field(self) -> Doc:
        """What the job's document says of it."""
        return {"id": self.id, "kind": self.kind, **self.data}


def joining(key: Any, line: LineName, now: int) -> Event:
    """A job stands in a line from now on."""
    return Event(key, new_stamp(now), JOINED, line)


def leaving(doc: Doc, now: int) -> list[Event]:
    """A pending job leaves the line where it stood, if it did."""
    line = line_in(doc)
    private = doc["mulligan"]
    if line is None or private.get("lane") != line_text(line):
        return []
    data = {
        "lane": lane_name(line.lane),
        "key": line.key,
        "limits": list(line.limits),
        "costs": private.get("limits"),
        "due": private["due"],
        "sequence": private["sequence"],
    }
    return [Event(doc["_id"], new_stamp(now), LEFT, line, data)]


def ending(doc: Doc, now: int, *, refunded: bool = False) -> list[Event]:
    """A lease of the job is over, and with it what it held of limits, if it did."""
    private = doc["mulligan"]
    limits = private.get("holds")
    if not isinstance(limits, str):
        return []
    since = private.get("started_at") if refunded else None
    data = {"limits": limits, "holder": holder_of(doc["_id"], private["token"]), "since": since}
    return [Event(doc["_id"], new_stamp(now), ENDED, None, data)]


def using(doc: Doc, use: LimitUse | None, now: int) -> list[Event]:
    """An attempt has spent something of limits besides, or says which to pause."""
    if use is None:
        return []
    data = {
        "spent": [list(each) for each in use.spent],
        "pauses": [list(each) for each in use.pauses],
        "retry_after": use.retry_after,
        "limits": doc["mulligan"].get("limits"),
        "at": now,
    }
    return [Event(doc["_id"], new_stamp(now), USED, None, data)]


def holder_of(key: Any, token: int) -> str:
    """The name of a lease in the limits whose permits it holds."""
    return f"{token}/{key}"


def owing(change: Change, events: Sequence[Event]) -> None:
    """Have the change write into its job those of the events that must not be lost."""
    if owed := [event.field for event in events if event.owed]:
        change.update.setdefault("$push", {})[UNBOOKED] = {"$each": owed}


def events_in(doc: Doc) -> list[Event]:
    """The events that a job owes."""
    found: list[Event] = []
    owed = doc["mulligan"].get("unbooked") if is_job_key(doc["_id"]) else None
    for each in owed if isinstance(owed, list) else ():
        with suppress(*INVALID_RECORD):  # another program wrote into it
            found.append(event_from(doc, each))
    return found


def event_from(doc: Doc, field: Doc) -> Event:
    """An event as its document says it; raises one of INVALID_RECORD if it is broken."""
    stamped_at(field["id"])
    data = {name: value for name, value in field.items() if name not in ("id", "kind")}
    line = None
    if field["kind"] == LEFT:
        line = LineName(lane_from(field["lane"]), field["key"], tuple(field["limits"]))
    elif field["kind"] == JOINED:
        line = line_in(doc)
    return Event(doc["_id"], field["id"], field["kind"], line, data)
