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
from msgspec import Struct
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DocumentTooLarge, DuplicateKeyError

from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError
from mulligan.core.job import ENDED
from mulligan.core.lane import ANYWHERE, Lane, priority_of, retry_priority
from mulligan.core.settings import kept_for
from mulligan.stores.mongo.bulk_write import Change, write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import (
    AWAITING,
    NEVER,
    SECOND,
    TO_WRITE,
    Doc,
    date,
    date_after,
    is_taken_in,
    line_in,
    never_claimed,
    of_date,
    private_names,
    private_of,
    seconds,
    standing,
)
from mulligan.stores.mongo.events import Event, joining, owing
from mulligan.stores.mongo.fields import DEFAULTS
from mulligan.stores.mongo.payload import MalformedError, NoTaskError, body_of, count_of
from mulligan.stores.mongo.validate import invalid_key, invalid_reason

log = logging.getLogger("mulligan.store")

STRAY = {"status": "pending", "mulligan.lane": None}
# Not an array, whose members the server would look at as well.
IS_DOCUMENT = {"$type": "object", "$not": {"$type": "array"}}
NAMES_A_TASK = {"payload": IS_DOCUMENT, "payload.task": {"$ne": None}}
# A document that was once taken in has its task among its private fields.
TAKEN_IN = {"mulligan.body": {"$exists": True}}
# A page of strays: a claim that meets more takes in the others with the next one.
STRAYS = 500
REASON_LENGTH = 500
# What the server or the driver raises when one document cannot be written so.
REFUSED = (BulkWriteError, DocumentTooLarge, InvalidDocument)
# By so much the clock of a program that puts documents back may be behind, and sleepers are woken
# for it at once; claims see what was put back in any case.
BEHIND = 60 * SECOND
QUEUE, REGION = "default", ANYWHERE


def strays(default_task: str | None) -> Doc:
    """Pending documents that stand in no lane: inserted or put back by another program.

    Without a default task, those that name none are not for mulligan.
    """
    return STRAY | with_a_task(default_task)


def with_a_task(default_task: str | None) -> Doc:
    """Documents whose task is known."""
    return {} if default_task is not None else {"$or": [NAMES_A_TASK, TAKEN_IN]}


def odd_strays(default_task: str | None) -> Doc:
    """Those whose program keeps a list where private fields are: no claim finds them."""
    return {"status": "pending", "mulligan": {"$type": "array"}} | with_a_task(default_task)


def due(now: int) -> Doc:
    """Those that are due; a value that is no date matches too, and is set aside."""
    return {"next_retry_at": {"$not": {"$gt": date_after(now)}}}


async def due_strays(connection: Connection, now: int) -> list[Doc]:
    """Those that a worker may take in now, and those that were put back while all slept."""
    found = await rows(
        connection.tasks.find(strays(connection.default_task) | due(now)).limit(STRAYS)
    )
    return found + await rows(connection.tasks.find(put_back(now)).limit(STRAYS))


async def next_stray(connection: Connection, now: int) -> float:
    """In how many seconds the next of those falls due that is not due yet."""
    query = strays(connection.default_task) | {"next_retry_at": {"$gt": date_after(now)}}
    order = [("next_retry_at", 1)]
    doc = await connection.tasks.find_one(query, {"next_retry_at": 1}, sort=order)
    at = None if doc is None else doc["next_retry_at"]
    return seconds(of_date(at) - now) if isinstance(at, datetime) else inf


def put_back(now: int) -> Doc:
    """Pending documents that stand in a lane, and that another program has had since."""
    return {
        "status": "pending",
        "updated_at": {"$gte": date(now - BEHIND)},
        "mulligan.lane": {"$gt": ""},
        "mulligan.updated_at": {"$exists": True},
        "$expr": {"$ne": ["$updated_at", "$mulligan.updated_at"]},
    }


class Joined(Struct, frozen=True):
    """Where a document stands now: a lane, or a line, whose book is to be told."""

    lane: str
    due: int
    event: Event | None = None


async def take_in(connection: Connection, docs: Sequence[Doc], now: int) -> list[Joined]:
    """Let each document stand in its lane or line; returns where those stand that now do.

    Whatever a document holds, it alone is set aside, with the reason, and holds up nothing.
    """
    if not docs:
        return []
    ordered = sorted(docs, key=lambda doc: (str(doc.get("created_at")), str(doc["_id"])))
    number = await connection.numbers(len(ordered))
    changes: list[tuple[Change, Doc]] = []
    joined: dict[Any, Joined] = {}
    for at, doc in enumerate(ordered, number):
        try:
            private = private_fields(doc, connection.default_task, now, at)
            change, event = taken_in(doc, private, now), None
            if doc["status"] == "pending" and private["lane"] != AWAITING:
                line = line_in({"mulligan": private})
                if line is not None:
                    event = joining(doc["_id"], line, now)
                    owing(change, [event])
                joined[doc["_id"]] = Joined(private["lane"], private["due"], event)
        except NoTaskError:
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are taken in
            await set_aside(connection, doc, error, now)
            continue
        changes.append((change, doc))
    await connection.enter_lanes(each.lane for each in joined.values() if each.event is None)
    written = await apply(connection, changes, now)
    return [where for key, where in joined.items() if key in written]


def taken_in(doc: Doc, private: Doc, now: int) -> Change:
    """The write of the private fields that the document lacks, or another program has outdated."""
    before = private_of(doc)
    fields: Doc = {}
    if is_taken_in(doc):
        changed = {name: value for name, value in private.items() if before.get(name) != value}
        # It may have been ours when the other program put it back: that lease is over.
        changed |= {name: before.get(name, 0) + 1 for name in ("token", "uncommitted")}
        changed["worker"] = None
        if before.get("holds") is not None:
            changed["holds"] = None
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
            fields[name] = date(private.get("created_at", now))
    changed = changed | {"updated_at": fields.get("updated_at", doc.get("updated_at"))}
    if before:
        fields |= private_names(changed)
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


async def apply(
    connection: Connection, changes: Sequence[tuple[Change, Doc]], now: int
) -> set[Any]:
    """Write what is still as it was read; returns the keys of that."""
    try:
        return await connection.apply([change for change, _ in changes])
    except REFUSED:
        # Each by itself, to find out which the server refuses: it may have grown too large.
        written: set[Any] = set()
        for change, doc in changes:
            try:
                written |= await connection.apply([change])
            except REFUSED as error:
                if isinstance(error, BulkWriteError) and not error.details["writeErrors"]:
                    raise
                await set_aside(connection, doc, error, now)
        return written


async def set_aside(connection: Connection, doc: Doc, error: Exception, now: int) -> None:
    """Make the document a dead letter that says what is wrong with it; change nothing else."""
    ours = isinstance(error, MalformedError | InvalidError)
    reason = str(error) if ours else f"{type(error).__name__}: {error}"
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
        await write(
            connection.tasks, [UpdateOne(query, {"$set": {"status": "failed", "error": said}})]
        )
    except REFUSED as refused:
        log.warning("document %.200r cannot run nor be set aside: %s", doc["_id"], refused)


def private_fields(doc: Doc, default_task: str | None, now: int, number: int) -> Doc:
    """The private fields of the job that the document stands for, as its public ones have it.

    Those that mulligan wrote are kept, except the lane. Raises MalformedError, or NoTaskError
    where neither the document nor the store names a task.
    """
    taken_in = is_taken_in(doc)
    if taken_in and (reason := invalid_reason(doc)):
        raise MalformedError(reason)
    private = private_of(doc) if taken_in else first_fields(doc, default_task, now, number)
    attempts = count_of(doc, "attempts")
    due, delayed = due_from(doc, private, now, seen=taken_in)
    lane = lane_for(private, attempts)
    line = line_in({"mulligan": private}, lane)
    stand = standing(lane, due, number, delayed=delayed, line=line)
    if private.get("awaits"):
        stand["lane"] = AWAITING
    if doc["status"] != "pending":
        stand.pop("lane")
    return private | stand


def first_fields(doc: Doc, default_task: str | None, now: int, number: int) -> Doc:
    """The private fields of a document that mulligan has never seen."""
    if reason := invalid_key(doc):
        raise MalformedError(reason)
    check_name("_id", str(doc["_id"]))
    if not isinstance(doc.get("mulligan"), dict | None):
        raise MalformedError("mulligan is the name of private fields; use another name")
    task, body = body_of(doc, default_task)
    created = date_of(doc, "created_at")
    return {
        **DEFAULTS,
        "queue": QUEUE,
        "region": REGION,
        "task": task,
        "priority": int(priority_of(0 if (said := doc.get("priority")) is None else said)),
        "body": body,
        "created_at": min(created, now) if created is not None else now,
        **({} if (keep := doc.get("keep")) is None else {"keep": kept_for(keep)}),
        **never_claimed(number),
    }


def due_from(doc: Doc, private: Doc, now: int, *, seen: bool) -> tuple[int, bool]:
    """When the document falls due: by its date, or by its age where it has none."""
    at = date_of(doc, "next_retry_at")
    if at is not None:
        return at, True
    if not seen:
        return int(private["created_at"]), False
    returned = date_of(doc, "updated_at")
    return (now if returned is None else min(returned, now)), False


def lane_for(private: Doc, attempts: int) -> Lane:
    """Fresh work stands in its region's lane; what has failed is anyone's."""
    if not attempts:
        return Lane(private["queue"], private["region"], private["priority"])
    return Lane(private["queue"], ANYWHERE, retry_priority(private["priority"]))


def date_of(doc: Doc, name: str) -> int | None:
    """A date of the document in microseconds."""
    value = doc.get(name)
    try:
        return None if value is None else of_date(value)
    except TypeError as error:
        raise MalformedError(f"{name} {error}") from error


def is_plain(doc: Doc) -> bool:
    """Whether the document has no private fields that mulligan could use."""
    return not is_taken_in(doc) or invalid_reason(doc) is not None


async def replay_plain(connection: Connection, doc: Doc, now: int) -> bool:
    """Make a failed document pending again; a worker will read it anew."""
    fields: Doc = {"status": "pending", "updated_at": date(now), "attempts": 0}
    fields["next_retry_at"] = None
    query = {"_id": {"$eq": doc["_id"]}, "status": "failed"}
    if (await connection.tasks.update_one(query, {"$set": fields})).modified_count:
        return True
    dlq = connection.dlq.with_options(TO_WRITE)
    letter = await dlq.find_one(query) if connection.url.move_dead else None
    if letter is None:
        return False
    try:
        await connection.tasks.insert_one(letter | fields)
    except DuplicateKeyError:
        return False
    await dlq.delete_one(query)
    return True


async def cancel_plain(connection: Connection, doc: Doc, reason: str, now: int) -> bool:
    """End a document that is pending, or that another program holds."""
    fields: Doc = {"status": "cancelled", "updated_at": date(now)}
    if isinstance(doc.get("mulligan", {}), dict):
        fields["mulligan.cancel_reason"] = reason
    query = {"_id": {"$eq": doc["_id"]}, "status": doc["status"]}
    return bool((await connection.tasks.update_one(query, {"$set": fields})).modified_count)


async def purge_plain(connection: Connection, doc: Doc) -> bool:
    """Delete a document that has ended."""
    query = {"_id": {"$eq": doc["_id"]}, "status": {"$in": sorted(ENDED)}}
    replies = [await collection.delete_one(query) for collection in connection.collections]
    return any(reply.deleted_count for reply in replies)
