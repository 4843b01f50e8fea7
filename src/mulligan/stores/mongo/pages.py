"""The pages of the book: lines, fairness keys, alarms and limits, a document each.

Code that has to do with the book is not asynchronous: it asks for what it needs, and where that was
not read yet it is stopped, that is read, and it begins anew. So it works on a `Draft`: what was
read stays as it was, and what was written lies over it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct

from mulligan.stores.mongo.connection import PAGE, Connection, rows
from mulligan.stores.mongo.document import Doc
from mulligan.stores.mongo.reach import ORDER
from mulligan.stores.mongo.snapshot import PROJECTION
from mulligan.stores.mongo.validate import stands_as_put

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
# So many are read of a kind at first.
FEW = 4
# So many, and a few for each, are read of many things at once before each is asked for by itself.
MANY = 500
TOGETHER = 25
# What is read of a job that owes news to the book.
OWED = {
    "status": 1,
    **dict.fromkeys(
        [
            f"mulligan.{name}"
            for name in (
                *("unbooked", "lane", "due", "sequence", "queue", "scope", "lane_priority"),
                *("limits", "fairness_key", "token"),
            )
        ],
        1,
    ),
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
            return {"alarm_lane": lane}
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
    return (ALARMS, doc["alarm_lane"]) if "alarm_lane" in doc else None


def order_of(need: Need, doc: Doc) -> tuple[Any, ...]:
    """What pages of this kind are sorted by."""
    return tuple(doc[name] for name in ORDERS[need[0]])


class Pages:
    """What was read of the book since it was last changed, as far as it was asked for."""

    def __init__(self, connection: Connection, size: int = FEW) -> None:
        self.connection = connection
        self.size = size
        self.found: dict[Need, Any] = {}
        # Jobs that another program has changed, which are to be taken in: no line has them.
        self.odd: dict[Any, Doc] = {}

    def get(self, need: Need) -> Any:
        """What was read; raises MissingPageError if that was not."""
        if need not in self.found:
            raise MissingPageError(need)
        return self.found[need]

    async def fetch(self, needs: Iterable[Need]) -> None:
        """Read what is needed, those of a kind together; what was read already more of."""
        kinds: dict[str, list[Need]] = {}
        for need in dict.fromkeys(needs):
            kinds.setdefault(need[0], []).append(need)
        reads = {
            PAGE_OF: self._pages,
            JOB: self._jobs,
            LANES_AT: self._lanes_at,
            WAITED_FOR: self._waited_for,
            STATES: self._states,
        }
        await asyncio.gather(
            *(reads[kind](each) for kind, each in kinds.items() if kind in reads),
            self._windows({JOBS: kinds.pop(JOBS, [])}),
            self._windows({kind: each for kind, each in kinds.items() if kind not in reads}),
        )

    async def fetch_new(self, needs: Iterable[Need]) -> None:
        """Read what is needed and was not read."""
        await self.fetch([need for need in needs if need not in self.found])

    async def _pages(self, needs: Sequence[Need]) -> None:
        for some in slices(needs, PAGE // 10):
            ids = [need[1] for need in some]
            there = await rows(self.connection.lines.find({"_id": {"$in": ids}}))
            pages = {doc["_id"]: doc for doc in there if "gone" not in doc}
            self.found |= {need: pages.get(need[1]) for need in some}

    async def _jobs(self, needs: Sequence[Need]) -> None:
        keys = [need[1] for need in needs]
        found: dict[Any, Doc] = {}
        for collection in reversed(self.connection.collections):
            for doc in await rows(collection.find({"_id": {"$in": keys}}, OWED)):
                found[doc["_id"]] = doc
        self.found |= {need: found.get(need[1]) for need in needs}

    async def _lanes_at(self, needs: Sequence[Need]) -> None:
        for need in needs:
            self.found[need] = await self.connection.lines.distinct("lane", {"waits_for": need[1]})

    async def _waited_for(self, needs: Sequence[Need]) -> None:
        waited = {"waits_for": {"$gt": ""}}
        self.found[needs[0]] = await self.connection.lines.distinct("waits_for", waited)

    async def _states(self, needs: Sequence[Need]) -> None:
        states = await rows(self.connection.lines.find({"state": {"$gt": ""}}))
        self.found |= {(PAGE_OF, doc["_id"]): doc for doc in states}
        self.found[needs[0]] = [doc["state"] for doc in states]

    async def _windows(self, kinds: Mapping[str, Sequence[Need]]) -> None:
        """Read the first of each; all at once if there are many of which there are few."""
        left: list[Need] = []
        for kind, needs in kinds.items():
            fresh = [need for need in needs if need not in self.found]
            deep = [need for need in fresh if self._part(need)]
            if len(fresh) > 1 and kind in WHERE:
                some = [need for need in fresh if need not in deep]
                fresh = [*deep, *(await self._at_once(some, *WHERE[kind]))]
            left += fresh
            left += [n for n in needs if n in self.found and not self.found[n].complete]
        for part in slices(left, TOGETHER):
            await self._one_by_one(part)

    async def _at_once(self, needs: list[Need], index: int, field: str) -> list[Need]:
        """Read all there is of these, if it is not too much; returns which are left to read."""
        groups: dict[Need, list[Need]] = {}
        for need in needs:
            groups.setdefault((need[0], *need[1:index], *need[index + 1 :]), []).append(need)
        left: list[Need] = []
        for group in groups.values():
            if len(group) == 1:
                left += group
                continue
            query = self._query(group[0]) | {field: {"$in": [need[index] for need in group]}}
            most = MANY + FEW * len(group)
            found = await self._aggregate(group[0], query, most)
            if len(found) >= most:
                left += group
                continue
            docs: dict[Any, list[Doc]] = {need[index]: [] for need in group}
            for doc in found:
                docs[doc["mulligan"]["lane"] if group[0][0] == JOBS else doc[field]].append(doc)
            for need in group:
                self._keep(need, docs[need[index]], complete=True)
        return left

    async def _one_by_one(self, needs: Sequence[Need]) -> None:
        sizes = [self._next_size(need) for need in needs]
        parts = [self._part(need) for need in needs]
        docs = await self._first(needs, sizes, parts)
        short = [at for at, part in enumerate(parts) if part and len(docs[at]) < sizes[at]]
        if short:
            some, more = [needs[at] for at in short], [sizes[at] for at in short]
            whole = await self._first(some, more, [{}] * len(some))
            for at, found in zip(short, whole, strict=True):
                docs[at], parts[at] = found, {}
        for need, found, size, part in zip(needs, docs, sizes, parts, strict=True):
            if need[0] == JOBS and not part and size > FEW:
                await self.connection.reach.measure(need[1], len(found), size)
            self._keep(need, found, complete=len(found) < size)

    def _part(self, need: Need) -> Doc:
        """Which part of a line is read, if it is deep."""
        due = self.connection.reach.of(need[1]) if need[0] == JOBS else None
        return {} if due is None else {"mulligan.due": {"$lte": due}}

    async def _first(
        self, needs: Sequence[Need], sizes: Sequence[int], parts: Sequence[Doc]
    ) -> list[list[Doc]]:
        """The first so many of each, of the part of it."""
        collection = self._collection(needs[0])
        pipelines = [
            [*self._pipeline(need, self._query(need) | part, size), {"$set": {"of": at}}]
            for at, (need, size, part) in enumerate(zip(needs, sizes, parts, strict=True))
        ]
        unions: list[Doc] = [
            {"$unionWith": {"coll": collection.name, "pipeline": each}} for each in pipelines[1:]
        ]
        cursor = await collection.aggregate([*pipelines[0], *unions], batchSize=PAGE)
        docs: list[list[Doc]] = [[] for _ in needs]
        for doc in await cursor.to_list():
            docs[doc.pop("of")].append(doc)
        return docs

    def _next_size(self, need: Need) -> int:
        before = self.found.get(need)
        return self.size if before is None else 4 * max(before.read, self.size)

    def _keep(self, need: Need, docs: list[Doc], *, complete: bool) -> None:
        size = len(docs)
        if need[0] == JOBS:
            self.odd |= {doc["_id"]: doc for doc in docs if not stands_as_put(doc)}
            docs = [doc for doc in docs if doc["_id"] not in self.odd]
        else:
            self.found |= {(PAGE_OF, doc["_id"]): doc for doc in docs}
        self.found[need] = Window(docs, size, complete)

    def _collection(self, need: Need) -> Any:
        return self.connection.tasks if need[0] == JOBS else self.connection.lines

    def _query(self, need: Need) -> Doc:
        if need[0] == JOBS:
            return {"status": "pending", "mulligan.lane": need[1]}
        return query_of(need)

    def _pipeline(self, need: Need, query: Doc, size: int) -> list[Doc]:
        if need[0] == JOBS:
            return [
                {"$match": query},
                {"$sort": ORDER},
                {"$limit": size},
                {"$project": PROJECTION},
            ]
        order: Doc = dict.fromkeys(ORDERS[need[0]], 1)
        return [{"$match": query}, {"$sort": order}, {"$limit": size}]

    async def _aggregate(self, need: Need, query: Doc, size: int) -> list[Doc]:
        pipeline = self._pipeline(need, query, size)
        cursor = await self._collection(need).aggregate(pipeline, batchSize=PAGE)
        found: list[Doc] = await cursor.to_list()
        return found


def slices(needs: Sequence[Need], size: int) -> list[Sequence[Need]]:
    """The needs in parts of this size."""
    return [needs[at : at + size] for at in range(0, len(needs), size)]


# Where a need of this kind names what others of its kind may be asked for together by.
WHERE = {READY: (2, "key"), WAITING: (1, "waits_for"), JOBS: (1, "mulligan.lane")}


class Draft:
    """Pages as they will be: those that were written over those that were read."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.written: dict[str, Doc | None] = {}
        self._heaps: dict[Need, list[tuple[tuple[Any, ...], str]]] = {}
        self._stands: dict[str, tuple[Need, tuple[Any, ...]]] = {}
        self._passed: dict[Need, int] = {}

    def page(self, key: str) -> Doc | None:
        """A page, if there is one."""
        if key in self.written:
            return self.written[key]
        found: Doc | None = self.pages.get((PAGE_OF, key))
        return found

    def put(self, doc: Doc) -> None:
        """Write a page."""
        key = doc["_id"]
        self.written[key] = doc
        self._stands.pop(key, None)
        need = need_of(doc)
        if need is not None:
            order = order_of(need, doc)
            self._stands[key] = need, order
            heappush(self._heaps.setdefault(need, []), (order, key))

    def drop(self, key: str) -> None:
        """Remove a page."""
        self.written[key] = None
        self._stands.pop(key, None)

    def first(self, need: Need, *, new: bool = False) -> Doc | None:
        """The first page of a kind; a `new` one has none but those that were written."""
        heap = self._heaps.get(need, [])
        while heap and self._stands.get(heap[0][1]) != (need, heap[0][0]):
            heappop(heap)
        mine = self.written[heap[0][1]] if heap else None
        theirs = None if new else self._first_read(need)
        if mine is None or theirs is None:
            return mine if theirs is None else theirs
        return mine if order_of(need, mine) < order_of(need, theirs) else theirs

    def _first_read(self, need: Need) -> Doc | None:
        window: Window = self.pages.get(need)
        at = self._passed.get(need, 0)
        while at < len(window.docs) and window.docs[at]["_id"] in self.written:
            at += 1
        self._passed[need] = at
        if at < len(window.docs):
            return window.docs[at]
        if window.complete:
            return None
        raise MissingPageError(need)

    def kinds(self, kind: str) -> list[Need]:
        """Of what things of this kind pages were written, though they may stand elsewhere now."""
        return [need for need in self._heaps if need[0] == kind]

    def stand_in(self, need: Need) -> list[Doc]:
        """What was written of a kind."""
        docs = [self.written[key] for key, (of, _) in self._stands.items() if of == need]
        return [doc for doc in docs if doc is not None]

    def changed(self) -> tuple[list[Doc], list[str], list[str]]:
        """The pages that differ from what was read, those that are gone, and those that are new."""
        put, gone, new = [], [], []
        for key, doc in self.written.items():
            before = self.pages.found.get((PAGE_OF, key))
            if doc is None:
                if before is not None:
                    gone.append(key)
            elif before is None:
                put.append(doc)
                new.append(key)
            elif {**before, "serial": 0} != {**doc, "serial": 0}:
                put.append(doc)
        return put, gone, new
