"""Pages of jobs: first the documents that no worker has numbered yet, by key, then by number.

Nothing is written, so one that another program inserted has no number before a worker takes it in.
"""

import base64
import binascii
from typing import Any

import bson
from msgspec.structs import replace

from mulligan.core.errors import InvalidError
from mulligan.core.job import Job
from mulligan.core.page import Page, Selection
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import LEAN, STATUSES, Doc, job_number
from mulligan.stores.mongo.inbox import QUEUE, REGION
from mulligan.stores.mongo.read import Reader

# The server looks into lists too, wherever they are; what is in one is nobody's number.
IN_A_LIST = {"$type": "array"}
NUMBER = {"$type": ["int", "long"], "$not": IN_A_LIST}
# Whatever else there may be instead of a number; each is found by an index.
OTHERS = (
    *("double", "string", "object", "binData", "objectId", "bool", "date", "regex", "decimal"),
    *("javascript", "timestamp", "minKey", "maxKey"),
)
UNNUMBERED: list[Doc] = [
    {"mulligan.number": None},
    {"mulligan.number": {"$type": list(OTHERS)}},
    {"mulligan.number": float("nan")},
    {"mulligan.number": IN_A_LIST},
    {"mulligan": IN_A_LIST},
]
# How many of those are read at a time: their task is not known before.
PIECE = 200
# A cursor among those names the key and the collection that it is in; all others name a number.
BY_KEY = "k"
# Above the number of every job: where those with a number begin.
FIRST = 2**63 - 1
DIGITS = len(str(FIRST))


class PageReader:
    """What readers list."""

    def __init__(self, connection: Connection, reader: Reader) -> None:
        self.connection = connection
        self.reader = reader

    async def page(
        self, selection: Selection, limit: int, after: str | None, *, bodies: bool, looks: int
    ) -> Page:
        """Jobs that match, newest first: those that no worker has seen yet are the newest."""
        new: list[tuple[Job, str]] = []
        if after is None or after.startswith(BY_KEY):
            new = await self.unnumbered(selection, limit + 1, after)
            if not bodies:
                new = [(replace(job, body=b"", result=None), cursor) for job, cursor in new]
            if len(new) > limit:
                return Page([job for job, _ in new[:limit]], new[limit - 1][1])
        below = FIRST if after is None or after.startswith(BY_KEY) else number_of_cursor(after)
        rest = limit - len(new)
        numbers = NUMBER | {"$lt": below}
        floor = await self.floor(selection, numbers, looks)
        if floor is not None:
            numbers = numbers | {"$gte": floor}
        docs = await self.numbered(selection, rest + 1, numbers, bodies=bodies)
        jobs = [job for job, _ in new] + await self.reader.jobs(docs[:rest])
        if len(docs) <= rest:
            return Page(jobs, None if floor is None else str(floor))
        return Page(jobs, str(job_number(docs[rest - 1]) if rest else FIRST))

    async def floor(self, selection: Selection, numbers: Doc, looks: int) -> int | None:
        """The number of the last document that a text is sought in; None for all."""
        if selection.text is None:
            return None
        query = numbered_query(replace(selection, text=None), numbers)
        floors: list[int] = []
        for collection in self.connection.collections:
            found = collection.find(query, {"mulligan.number": 1}).sort([("mulligan.number", -1)])
            floors += map(job_number, await rows(found.skip(looks - 1).limit(1)))
        return max(floors, default=None)

    async def numbered(
        self, selection: Selection, limit: int, numbers: Doc, *, bodies: bool
    ) -> list[Doc]:
        """Documents that mulligan has given such numbers, downwards."""
        query = numbered_query(selection, numbers)
        found: dict[str, Doc] = {}
        for collection in reversed(self.connection.collections):
            listed = collection.find(query, None if bodies else LEAN).sort(
                [("mulligan.number", -1)]
            )
            found |= {str(doc["_id"]): doc for doc in await rows(listed.limit(limit))}
        if not bodies:
            for doc in found.values():
                doc["mulligan"]["body"] = b""
        return sorted(found.values(), key=job_number, reverse=True)[:limit]

    async def unnumbered(
        self, selection: Selection, limit: int, after: str | None
    ) -> list[tuple[Job, str]]:
        """Jobs of all other documents, each with the cursor after it."""
        if selection.queue not in (None, QUEUE) or selection.region not in (None, REGION):
            return []
        first, *key = (
            (0,) if after is None else key_of_cursor(after, len(self.connection.collections))
        )
        found: list[tuple[Job, str]] = []
        for at in range(first, len(self.connection.collections)):
            begin = key if at == first else []
            while len(found) < limit:
                piece = await self.piece(selection, at, begin)
                docs = piece if at == 0 else await self.without_copies(piece)
                for doc, job in zip(docs, await self.reader.jobs(docs), strict=True):
                    if selection.task in (None, job.task):
                        found.append((job, cursor_of(at, doc["_id"])))
                if len(piece) < PIECE:
                    break
                begin = [piece[-1]["_id"]]
        return found[:limit]

    async def piece(self, selection: Selection, at: int, begin: list[Any]) -> list[Doc]:
        """The next documents of a collection by key."""
        query = query_of(Selection(status=selection.status, text=selection.text))
        query["$or"] = UNNUMBERED
        if begin:
            # By expression, which knows an order between keys of all kinds.
            before = {"$lt": ["$_id", {"$literal": begin[0]}]}
            query["$expr"] = {"$and": [query.get("$expr", True), before]}
        return await rows(
            self.connection.collections[at].find(query).sort([("_id", -1)]).limit(PIECE)
        )

    async def without_copies(self, letters: list[Doc]) -> list[Doc]:
        """The letters that do not stand among the tasks as well, whose own copy is the true one."""
        keys = {"_id": {"$in": [doc["_id"] for doc in letters]}}
        copies = [doc["_id"] for doc in await rows(self.connection.tasks.find(keys, {"_id": 1}))]
        return [doc for doc in letters if doc["_id"] not in copies]


def numbered_query(selection: Selection, numbers: Doc) -> Doc:
    """The query for documents that match and that mulligan has given such numbers."""
    return query_of(selection) | {"mulligan": {"$not": IN_A_LIST}, "mulligan.number": numbers}


def query_of(selection: Selection) -> Doc:
    """The query that a selection stands for; what users typed is only ever compared."""
    statuses = list(STATUSES) if selection.status is None else [str(selection.status)]
    query: Doc = {"status": {"$in": statuses, "$not": {"$type": "array"}}}
    for field, value in (
        ("mulligan.queue", selection.queue),
        ("mulligan.region", selection.region),
        ("mulligan.task", selection.task),
    ):
        if value is not None:
            query[field] = {"$eq": str(value)}
    if selection.text is not None:
        failure = {"$concat": [text_of("$error.type"), ": ", text_of("$error.message")]}
        sought = {"$literal": str(selection.text)}
        query["error"] = {"$type": "object"}
        query["$expr"] = {"$gte": [{"$indexOfCP": [failure, sought]}, 0]}
    return query


def text_of(field: str) -> Doc:
    """The field if it is text; another program may have put anything there."""
    return {"$cond": [{"$eq": [{"$type": field}, "string"]}, field, ""]}


def cursor_of(at: int, key: Any) -> str:
    """The cursor after a document without a number."""
    return f"{BY_KEY}{at}." + base64.urlsafe_b64encode(bson.encode({"_id": key})).decode()


def key_of_cursor(cursor: str, collections: int) -> tuple[Any, ...]:
    """The collection and the key that such a cursor stands for."""
    at, _, encoded = cursor.removeprefix(BY_KEY).partition(".")
    try:
        [key] = bson.decode(base64.b64decode(encoded, b"-_", validate=True)).values()
        return (range(collections)[int(at)], key)
    except (ValueError, IndexError, binascii.Error, bson.errors.BSONError) as error:
        raise invalid_cursor(cursor) from error


def number_of_cursor(cursor: str) -> int:
    """The number that a cursor stands for."""
    if (
        not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= DIGITS)
        or int(cursor) > FIRST
    ):
        raise invalid_cursor(cursor)
    return int(cursor)


def invalid_cursor(cursor: str) -> InvalidError:
    """The error for a cursor that no page has given."""
    return InvalidError(f"after {cursor[:40]!r} is not where a page ended; leave it out")
