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
from mulligan.stores.mongo.base import Base, Doc, rows
from mulligan.stores.mongo.documents import LEAN
from mulligan.stores.mongo.foreign import QUEUE, REGION, STATUSES
from mulligan.stores.mongo.reading import Reading
from mulligan.stores.mongo.views import place_of

# The server looks into lists too, wherever they are; what is in one is nobody's number.
IN_A_LIST = {"$type": "array"}
NUMBER = {"$type": ["int", "long"], "$not": IN_A_LIST}
# Whatever else there may be in place of a number; each is found by an index.
OTHERS = (
    *("double", "string", "object", "binData", "objectId", "bool", "date", "regex", "decimal"),
    *("javascript", "timestamp", "minKey", "maxKey"),
)
UNNUMBERED: list[Doc] = [
    {"mulligan.place": None},
    {"mulligan.place": {"$type": list(OTHERS)}},
    {"mulligan.place": float("nan")},
    {"mulligan.place": IN_A_LIST},
    {"mulligan": IN_A_LIST},
]
# How many of those are read at a time: what they are called is not known before.
PIECE = 200
# A place among those is told by their key and the collection that it is in, all others by number.
BY_KEY = "k"
# The place of no job: where those with a number begin.
FIRST = 2**63 - 1
DIGITS = len(str(FIRST))


class Pages:
    """What readers list."""

    def __init__(self, base: Base, reading: Reading) -> None:
        self.base = base
        self.reading = reading

    async def page(
        self, selection: Selection, limit: int, after: str | None, *, bodies: bool, looks: int
    ) -> Page:
        """Jobs that match, newest first: those that no worker has seen yet are the newest."""
        new: list[tuple[Job, str]] = []
        if after is None or after.startswith(BY_KEY):
            new = await self.unnumbered(selection, limit + 1, after)
            if not bodies:
                new = [(replace(job, body=b"", result=None), word) for job, word in new]
            if len(new) > limit:
                return Page([job for job, _ in new[:limit]], new[limit - 1][1])
        below = FIRST if after is None or after.startswith(BY_KEY) else number_in(after)
        rest = limit - len(new)
        numbers = NUMBER | {"$lt": below}
        floor = await self.floor(selection, numbers, looks)
        if floor is not None:
            numbers = numbers | {"$gte": floor}
        docs = await self.numbered(selection, rest + 1, numbers, bodies=bodies)
        jobs = [job for job, _ in new] + await self.reading.jobs(docs[:rest])
        if len(docs) <= rest:
            return Page(jobs, None if floor is None else str(floor))
        return Page(jobs, str(place_of(docs[rest - 1]) if rest else FIRST))

    async def floor(self, selection: Selection, numbers: Doc, looks: int) -> int | None:
        """The number of the last document that a text is sought in; None for all."""
        if selection.text is None:
            return None
        query = numbered_query(replace(selection, text=None), numbers)
        floors: list[int] = []
        for place in self.base.places:
            found = place.find(query, {"mulligan.place": 1}).sort([("mulligan.place", -1)])
            floors += map(place_of, await rows(found.skip(looks - 1).limit(1)))
        return max(floors, default=None)

    async def numbered(
        self, selection: Selection, limit: int, numbers: Doc, *, bodies: bool
    ) -> list[Doc]:
        """Documents that mulligan has given such numbers, downwards."""
        query = numbered_query(selection, numbers)
        found: dict[str, Doc] = {}
        for place in reversed(self.base.places):
            listed = place.find(query, None if bodies else LEAN).sort([("mulligan.place", -1)])
            found |= {str(doc["_id"]): doc for doc in await rows(listed.limit(limit))}
        if not bodies:
            for doc in found.values():
                doc["mulligan"]["body"] = b""
        return sorted(found.values(), key=place_of, reverse=True)[:limit]

    async def unnumbered(
        self, selection: Selection, limit: int, after: str | None
    ) -> list[tuple[Job, str]]:
        """Jobs of all other documents, each with the word for its place."""
        if selection.queue not in (None, QUEUE) or selection.region not in (None, REGION):
            return []
        first, *key = (0,) if after is None else key_in(after, len(self.base.places))
        found: list[tuple[Job, str]] = []
        for at in range(first, len(self.base.places)):
            begin = key if at == first else []
            while len(found) < limit:
                piece = await self.piece(selection, at, begin)
                docs = piece if at == 0 else await self.without_copies(piece)
                for doc, job in zip(docs, await self.reading.jobs(docs), strict=True):
                    if selection.task in (None, job.task):
                        found.append((job, word_of(at, doc["_id"])))
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
        return await rows(self.base.places[at].find(query).sort([("_id", -1)]).limit(PIECE))

    async def without_copies(self, letters: list[Doc]) -> list[Doc]:
        """The letters that do not stand among the tasks as well, whose own copy is the true one."""
        keys = {"_id": {"$in": [doc["_id"] for doc in letters]}}
        copies = [doc["_id"] for doc in await rows(self.base.tasks.find(keys, {"_id": 1}))]
        return [doc for doc in letters if doc["_id"] not in copies]


def numbered_query(selection: Selection, numbers: Doc) -> Doc:
    """The query for documents that match and that mulligan has given such numbers."""
    return query_of(selection) | {"mulligan": {"$not": IN_A_LIST}, "mulligan.place": numbers}


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


def word_of(at: int, key: Any) -> str:
    """The word for a place among the documents without a number."""
    return f"{BY_KEY}{at}." + base64.urlsafe_b64encode(bson.encode({"_id": key})).decode()


def key_in(word: str, places: int) -> tuple[Any, ...]:
    """The collection and the key that such a word stands for."""
    at, _, encoded = word.removeprefix(BY_KEY).partition(".")
    try:
        [key] = bson.decode(base64.b64decode(encoded, b"-_", validate=True)).values()
        return (range(places)[int(at)], key)
    except (ValueError, IndexError, binascii.Error, bson.errors.BSONError) as error:
        raise no_place(word) from error


def number_in(word: str) -> int:
    """The number that a word stands for."""
    if not (word.isascii() and word.isdecimal() and len(word) <= DIGITS) or int(word) > FIRST:
        raise no_place(word)
    return int(word)


def no_place(word: str) -> InvalidError:
    """What is said of a word that no page has given."""
    return InvalidError(f"after {word[:40]!r} is not where a page ended; leave it out")
