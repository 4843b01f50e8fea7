"""Documents that other programs inserted or put back: a worker about to run one takes it in.

Nothing that another program wrote is overwritten. What is done, what another program holds, what is
not due and what names no task is left alone. One that cannot run is given `status` and `error`, and
nothing else.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from math import inf
from typing import Any

from bson.errors import InvalidDocument
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DocumentTooLarge

from mulligan.core.errors import InvalidError
from mulligan.stores.mongo.base import Base, Change, Doc, rows
from mulligan.stores.mongo.colliding import write
from mulligan.stores.mongo.documents import AWAITING, NEVER, NEXT_TOKEN, is_known, private_of
from mulligan.stores.mongo.foreign import MalformedError, NoTaskError, private_fields
from mulligan.stores.mongo.times import SECOND, date, date_after, of_date, seconds

log = logging.getLogger("mulligan.store")

STRAY = {"status": "pending", "mulligan.line": None}
# Those of other programs are told from arrays, whose members the server would look at as well.
IS_DOCUMENT = {"$type": "object", "$not": {"$type": "array"}}
NAMES_A_TASK = {"payload": IS_DOCUMENT, "payload.task": {"$ne": None}}
# What was once taken in has its task among its private fields.
TAKEN_IN = {"mulligan.body": {"$exists": True}}
# A page of strays: a claim that meets more takes in the others with the next one.
STRAYS = 500
REASON_LENGTH = 500
# What a server or the driver says when one document cannot be written so.
REFUSED = (BulkWriteError, DocumentTooLarge, InvalidDocument)
# By so much the clock of a program that puts documents back may be behind, for sleepers to hear of
# it at once; claims see what was put back in any case.
BEHIND = 60 * SECOND


def strays(default_task: str | None) -> Doc:
    """Pending documents that stand in no lane: inserted or put back by another program.

    Without a default task, those that name none are not for mulligan.
    """
    return STRAY | with_a_task(default_task)


def with_a_task(default_task: str | None) -> Doc:
    """Of which it is known what to run."""
    return {} if default_task is not None else {"$or": [NAMES_A_TASK, TAKEN_IN]}


def odd_strays(default_task: str | None) -> Doc:
    """Those of another program that keeps a list where private fields are: they stand nowhere."""
    return {"status": "pending", "mulligan": {"$type": "array"}} | with_a_task(default_task)


def due(now: int) -> Doc:
    """Which may start; whatever is no date is found too, and set aside."""
    return {"next_retry_at": {"$not": {"$gt": date_after(now)}}}


async def due_strays(base: Base, now: int) -> list[Doc]:
    """Those that a worker may take in now, and those that were put back while all slept."""
    found = await rows(base.tasks.find(strays(base.default_task) | due(now)).limit(STRAYS))
    return found + await rows(base.tasks.find(put_back(now)).limit(STRAYS))


async def next_stray(base: Base, now: int) -> float:
    """How many seconds until the next of those that are not due yet is."""
    query = strays(base.default_task) | {"next_retry_at": {"$gt": date_after(now)}}
    order = [("next_retry_at", 1)]
    doc = await base.tasks.find_one(query, {"next_retry_at": 1}, sort=order)
    at = None if doc is None else doc["next_retry_at"]
    return seconds(of_date(at) - now) if isinstance(at, datetime) else inf


def put_back(now: int) -> Doc:
    """Pending documents that stand in a lane, and that another program has had since."""
    return {
        "status": "pending",
        "updated_at": {"$gte": date(now - BEHIND)},
        "mulligan.line": {"$gt": ""},
        "mulligan.touched": {"$exists": True},
        "$expr": {"$ne": ["$updated_at", "$mulligan.touched"]},
    }


async def take_in(base: Base, docs: Sequence[Doc], now: int) -> list[tuple[str, int]]:
    """Give each document its place; returns (line, due) of those that now stand in a lane.

    Whatever a document holds, it alone is set aside, with the reason, and holds up nothing.
    """
    if not docs:
        return []
    ordered = sorted(docs, key=lambda doc: (str(doc.get("created_at")), str(doc["_id"])))
    number = await base.numbers(len(ordered))
    changes: list[tuple[Change, Doc]] = []
    joined: dict[Any, tuple[str, int]] = {}
    for at, doc in enumerate(ordered, number):
        try:
            private = private_fields(doc, base.default_task, now, at)
        except NoTaskError:
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are taken in
            await set_aside(base, doc, error, now)
            continue
        changes.append((taken_in(doc, private, now), doc))
        if doc["status"] == "pending" and private["line"] != AWAITING:
            joined[doc["_id"]] = (private["line"], private["due"])
    await base.know(line for line, _ in joined.values())
    written = await apply(base, changes, now)
    return [where for key, where in joined.items() if key in written]


def taken_in(doc: Doc, private: Doc, now: int) -> Change:
    """The write of the private fields that the document lacks, or another program has outdated."""
    before = private_of(doc)
    fields: Doc = {}
    if is_known(doc):
        changed = {name: value for name, value in private.items() if before.get(name) != value}
        # It may have been ours when the other program put it back: that lease is over.
        changed |= {name[9:]: before.get(name[9:], 0) + 1 for name in NEXT_TOKEN} | {"worker": None}
        if private.get("awaits"):
            fields["next_retry_at"] = NEVER
    else:
        changed = private
    for name, value in (("next_retry_at", None), ("error", None)):
        if name not in doc:
            fields[name] = value
    if doc.get("attempts") is None:
        fields["attempts"] = 0  # it is added to
    for name in ("created_at", "updated_at"):
        if doc.get(name) is None:
            fields[name] = date(private.get("created", now))
    changed = changed | {"touched": fields.get("updated_at", doc.get("updated_at"))}
    if before:
        fields |= {f"mulligan.{name}": value for name, value in changed.items()}
    else:
        fields["mulligan"] = changed
    return Change(doc["_id"], as_read(doc), {"$set": fields})


def as_read(doc: Doc) -> Doc:
    """What must still hold when a document that was read is written."""
    return {
        "status": doc["status"],
        "next_retry_at": {"$eq": doc.get("next_retry_at")},
        "updated_at": {"$eq": doc.get("updated_at")},
        "mulligan.token": {"$eq": private_of(doc).get("token")},
    }


async def apply(base: Base, changes: Sequence[tuple[Change, Doc]], now: int) -> set[Any]:
    """Write what is still as it was read; returns the keys of that."""
    try:
        return await base.apply([change for change, _ in changes])
    except REFUSED:
        # Each by itself, to find out which the server refuses: it may have grown too large.
        written: set[Any] = set()
        for change, doc in changes:
            try:
                written |= await base.apply([change])
            except REFUSED as error:
                if isinstance(error, BulkWriteError) and not error.details["writeErrors"]:
                    raise
                await set_aside(base, doc, error, now)
        return written


async def set_aside(base: Base, doc: Doc, error: Exception, now: int) -> None:
    """Make the document a dead letter that says what is wrong with it; change nothing else."""
    told = isinstance(error, MalformedError | InvalidError)
    reason = str(error) if told else f"{type(error).__name__}: {error}"
    said = {
        "message": f"malformed: {reason[:REASON_LENGTH]}",
        "code": "malformed",
        "at": date(now),
        "type": "MalformedError",
    }
    query = {
        "_id": {"$eq": doc["_id"]},
        "status": doc["status"],
        "updated_at": {"$eq": doc.get("updated_at")},
    }
    try:
        await write(base.tasks, [UpdateOne(query, {"$set": {"status": "failed", "error": said}})])
    except REFUSED as refused:
        log.warning("document %.200r cannot run nor be set aside: %s", doc["_id"], refused)
