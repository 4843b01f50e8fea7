"""The next jobs of a finished one, or the members of a new gathering one, until all are enqueued.

They lie in that document, written by the same update or insert, so that a crash loses nothing; and
their ids are fixed, so that delivering them twice is the same as once. Where they are too large
for one document, they lie in parts beside it: the parts are written before, and count from the
update on that names their stamp. Parts that no update can name any more are swept.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

from bson import encode  # AMBIGUOUS
from msgspec import Struct
from pymongo import DeleteMany, UpdateMany

from mulligan.core.validation import INVALID_RECORD
from mulligan.stores.mongo.bulk_write import new_stamp, stamped_at, write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import SECOND, STATUSES, Doc
from mulligan.stores.mongo.validate import invalid_reason

# A document holds 16 MiB at most.
PART = 4 * 1024 * 1024
SWEPT_AT_ONCE = 100
# Longer than it takes to insert the parent after the last of the parts.
INSERTED_WITHIN = 3600 * SECOND
UNDELIVERED = {
    "mulligan.outbox.stamp": {"$gt": ""},
    "mulligan": {"$not": {"$type": "array"}},  # the server looks into lists as well
}


class Box(Struct, frozen=True):
    """The next jobs of one finished job; in parts where they are too many for its document.

    When it has been emptied, the finished job releases its unique key, unless it `keeps` that.
    """

    parent: Any
    token: int
    stamp: str
    parts: list[list[Doc]]
    keeps: bool = False

    @property
    def jobs(self) -> list[Doc]:
        """All that is in it."""
        return [job for part in self.parts for job in part]

    @property
    def names(self) -> list[str]:
        """The keys of the documents beside the finished one; none if that holds it all."""
        return part_names(self.stamp, len(self.parts)) if len(self.parts) > 1 else []

    @property
    def field(self) -> Doc:
        """What the finished document says of it."""
        keeps = {"keeps": True} if self.keeps else {}
        if self.names:
            return {"stamp": self.stamp, "parts": len(self.parts), **keeps}
        return {"stamp": self.stamp, "jobs": self.parts[0], **keeps}


def pack(parent: Any, token: int, jobs: list[Doc], *, keeps: bool = False, now: int = 0) -> Box:
    """Put next jobs into a box; one for a parent that is not stored yet says when it was made."""
    parts: list[list[Doc]] = [[]]
    room = PART
    for job in jobs:
        size = len(encode(job))
        if size > room and parts[-1]:
            parts.append([])
            room = PART
        parts[-1].append(job)
        room -= size
    return Box(parent, token, new_stamp(now), parts, keeps)


def part_names(stamp: str, count: int) -> list[str]:
    """The keys of the parts of a box."""
    return [f"{stamp}/{at}" for at in range(count)]


async def set_beside(connection: Connection, boxes: Iterable[Box]) -> None:
    """Write what the finished documents cannot hold, before they are written."""
    for box in boxes:
        whose: Doc = {"stamp": box.stamp, "parent": box.parent, "token": box.token}
        for at, name in enumerate(box.names):
            await connection.outbox.insert_one({"_id": name, **whose, "jobs": box.parts[at]})


async def take_away(connection: Connection, boxes: Iterable[Box]) -> None:
    """Delete parts that no document names."""
    names = [name for box in boxes for name in box.names]
    if names:
        await write(connection.outbox, [DeleteMany({"_id": {"$in": names}})])


async def boxes_of(connection: Connection, docs: Iterable[Doc]) -> list[Box]:
    """Return the boxes of those documents that have one that can be read."""
    boxes = []
    for doc in docs:
        with suppress(*INVALID_RECORD):  # another program wrote into it
            if kept := doc["mulligan"].get("outbox"):
                boxes.append(await box_of(connection, doc, kept))
    return boxes


async def box_of(connection: Connection, doc: Doc, kept: Doc) -> Box:
    """Return what a document kept as its box; raises one of INVALID_RECORD if it is broken."""
    parts = [kept["jobs"]] if "jobs" in kept else await read_parts(connection, kept)
    token, keeps = doc["mulligan"].get("token", 0), bool(kept.get("keeps"))
    box = Box(doc["_id"], token, str(kept["stamp"]), parts, keeps)
    for job in box.jobs:
        if job["status"] not in STATUSES or invalid_reason(job):
            raise ValueError(job["_id"])
    return box


async def find_boxes(connection: Connection, jobs: Collection[str]) -> list[Box]:
    """The boxes with any of these jobs: not enqueued yet, though the job before them is done."""
    parents = connection.tasks.find(UNDELIVERED, {"mulligan.outbox": 1, "mulligan.token": 1})
    found: list[Box] = []
    for parent in await rows(parents):
        boxes = await boxes_of(connection, [parent])
        found += [box for box in boxes if any(job["_id"] in jobs for job in box.jobs)]
    return found


async def set_broken_aside(connection: Connection, docs: Iterable[Doc]) -> None:
    """Rename the boxes of these documents that cannot be read to `outbox_invalid`.

    They would be found again and again, before others.
    """
    broken = [doc["_id"] for doc in docs if not await boxes_of(connection, [doc])]
    if broken:
        rename = {"$rename": {"mulligan.outbox": "mulligan.outbox_invalid"}}
        await write(connection.tasks, [UpdateMany({"_id": {"$in": broken}, **UNDELIVERED}, rename)])


async def read_parts(connection: Connection, kept: Doc) -> list[list[Doc]]:
    """The parts that lie beside the document; none where another has delivered them meanwhile."""
    keys = part_names(kept["stamp"], kept["parts"])
    found = {
        part["_id"]: part["jobs"]
        for part in await rows(connection.outbox.find({"_id": {"$in": keys}}))
    }
    return [found.get(key, []) for key in keys]


async def sweep(connection: Connection) -> None:
    """Delete parts whose commit was never written: its lease is over, no document names them."""
    fields = {"stamp": 1, "parent": 1, "token": 1}
    parts = await rows(connection.outbox.find({}, fields).limit(SWEPT_AT_ONCE))
    if not parts:
        return
    parents = {
        doc["_id"]: doc
        for doc in await rows(
            connection.tasks.find(
                {"_id": {"$in": [part["parent"] for part in parts]}},
                {"status": 1, "mulligan.token": 1, "mulligan.outbox.stamp": 1},
            )
        )
    }
    now = await connection.now()
    left = [p["_id"] for p in parts if not may_count(p, parents.get(p["parent"]), now)]
    await write(connection.outbox, [DeleteMany({"_id": {"$in": left}})])


def may_count(part: Doc, parent: Doc | None, now: int) -> bool:
    """Whether a document names the part, or one that is written or inserted may still do so."""
    if parent is None:
        return now - stamped_at(part["stamp"]) < INSERTED_WITHIN
    private = parent["mulligan"]
    if (private.get("outbox") or {}).get("stamp") == part["stamp"]:
        return True
    return bool(parent["status"] == "processing" and private["token"] == part["token"])
