"""The ledger: changes of many pages of the book as one, on a server without transactions.

The book has one root, a document with the number of its last change. A change reads the root and
then pages, and is made by one conditional write: the root has the next number, if it still has the
one that was read, and says all that the change does. Only then is that done, by whoever comes next:
each page knows the number of the change that wrote it, and is never written by an earlier one. So
nobody waits for a process that died or stands still, and one that comes back changes nothing.

A page that a change makes is there before, empty: what comes late makes none.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import bson
from msgspec import Struct, json
from pymongo import DeleteMany, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError

from mulligan.core.limits import Limit, StoredLimit, covering
from mulligan.stores.mongo.bulk_write import Change, Statement, new_stamp, write
from mulligan.stores.mongo.connection import BOOK, Collection, Connection, rows
from mulligan.stores.mongo.document import SECOND, TO_READ, Doc
from mulligan.stores.mongo.pages import Draft, MissingPageError, Need, Pages

T = TypeVar("T")
decode_limit = json.Decoder(Limit).decode

# After so many changes that others were quicker than it begins to wait longer between.
PAUSE = 0.002
MOST_PAUSE = 0.05
# Of how many names is remembered which limit covers them.
COVERING_KEPT = 10_000


# What the root says besides its lanes, its own number and its time.
NUMBERS = ("rounds", "limits", "later", "waiting", "alarms")
# By how much the clocks of processes differ at most; by more only if the server's clock was set.
CLOCKS_DIFFER = SECOND


class LaneFacts(Struct):
    """A lane in the root: how many lines it has, how many with a fairness key, and its turns.

    The keys of a round are forgotten together when the last line with a key is gone.
    """

    lines: int = 0
    keyed: int = 0
    present: int = 0
    round: int = 0


class Root(Struct):
    """The root of the book: its number, its lanes, and how often a stored limit was changed.

    It counts the lines that are not due or wait, and alarms: where there are none, nobody looks.
    `at` is when the last change was made, in microseconds.
    """

    version: int = 0
    lanes: dict[str, LaneFacts] = {}
    rounds: int = 0
    limits: int = 0
    later: int = 0
    waiting: int = 0
    alarms: int = 0
    at: int = 0
    redo: bytes | None = None

    def copy(self) -> "Root":
        """The same, to be changed."""
        lanes = {n: LaneFacts(f.lines, f.keyed, f.present, f.round) for n, f in self.lanes.items()}
        counts = self.later, self.waiting, self.alarms
        return Root(self.version, lanes, self.rounds, self.limits, *counts, self.at)

    def time(self, now: int) -> int:
        """The time of a change for one whose clock says this: no earlier than the last change.

        What is used of a limit is forgotten once it says nothing to anyone who comes later. To one
        with an earlier time it would have said something.
        """
        return now if self.at > now + CLOCKS_DIFFER else max(now, self.at)

    @property
    def fields(self) -> Doc:
        """What its document says."""
        lanes = [
            {"name": n, "lines": f.lines, "keyed": f.keyed, "present": f.present, "round": f.round}
            for n, f in self.lanes.items()
        ]
        return {"lanes": lanes} | {name: getattr(self, name) for name in NUMBERS}


def root_from(doc: Doc | None) -> Root:
    """The root as it was read."""
    if doc is None:
        return Root()
    lanes = {
        each["name"]: LaneFacts(each["lines"], each["keyed"], each["present"], each["round"])
        for each in doc["lanes"]
    }
    numbers = {name: doc[name] for name in NUMBERS}
    return Root(doc["version"], lanes, at=doc["at"], redo=doc.get("redo"), **numbers)


class StoredLimits:
    """The limits that apps declared and operators set, and which of them covers a name."""

    def __init__(self, changed: int, limits: dict[str, StoredLimit]) -> None:
        self.changed = changed
        self.limits = limits
        self._in_force = {n for n, each in limits.items() if each.in_force is not None}
        self._covering: dict[str, str | None] = {}

    def limit_of(self, name: str) -> Limit | None:
        """What holds for the name."""
        if name not in self._covering:
            if len(self._covering) > COVERING_KEPT:
                self._covering.clear()
            self._covering[name] = covering(name, self._in_force)
        by = self._covering[name]
        return None if by is None else self.limits[by].in_force


class Redo(Struct):
    """All that a change does: pages put and removed, jobs changed, and what these owe no more."""

    serial: int
    stamp: str
    put: list[Doc] = []
    gone: list[str] = []
    jobs: list[Change] = []
    settled: list[tuple[list[Any], list[str]]] = []

    def encoded(self) -> bytes:
        """As the root keeps it."""
        alike: dict[tuple[int, int, bool], list[Any]] = {}
        for each in self.jobs:
            kind = id(each.match), id(each.update), each.kept
            shared = alike.setdefault(kind, [each.match, each.update, each.kept, []])
            shared[-1].append([each.key, each.token, each.sequence])
        fields = {"stamp": self.stamp, "put": self.put, "gone": self.gone}
        fields["jobs"] = list(alike.values())
        return bson.encode(fields | {"settled": [list(each) for each in self.settled]})

    def pages(self) -> list[Statement]:
        """The writes of pages."""
        before = {"$lt": self.serial}
        put = [
            ReplaceOne({"_id": doc["_id"], "serial": before}, {**doc, "serial": self.serial})
            for doc in self.put
        ]
        gone = [DeleteMany({"_id": {"$in": self.gone}, "serial": before})] if self.gone else []
        return [*put, *gone]

    def debts(self) -> list[Statement]:
        """The writes by which jobs owe the book no more what it knows now."""
        return [
            UpdateMany(
                {"_id": {"$in": keys}}, {"$pull": {"mulligan.unbooked": {"id": {"$in": ids}}}}
            )
            for keys, ids in self.settled
        ]


def redo_from(serial: int, text: bytes) -> Redo:
    """What the root keeps."""
    doc = bson.decode(text, TO_READ)
    jobs = [
        Change(key, match, update, token, kept, sequence)
        for match, update, kept, each_one in doc["jobs"]
        for key, token, sequence in each_one
    ]
    settled = [(keys, ids) for keys, ids in doc["settled"]]
    return Redo(serial, doc["stamp"], doc["put"], doc["gone"], jobs, settled)


class Work:
    """Some work on the book: pages as they will be, and what else the change is to do.

    `at` is its time, `jobs` are changes of jobs, `settled` what jobs owe no more, by their keys and
    what it is called, and `ended` the lanes and rounds whose fairness keys are forgotten.
    """

    def __init__(self, pages: Pages, root: Root, stored: StoredLimits, now: int) -> None:
        self.draft = Draft(pages)
        self.at = root.time(now)
        self.before = root
        self.root = root.copy()
        self.stored = stored
        self.stamp = new_stamp()
        self.jobs: list[Change] = []
        self.settled: list[tuple[list[Any], list[str]]] = []
        self.ended: list[tuple[str, int]] = []

    def close(self) -> None:
        """Write down what was left to the end of the work."""


W = TypeVar("W", bound=Work)
Made = Callable[[Pages, Root, StoredLimits], W]


class Ledger:
    """Reads and changes the book."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        # Changes of one process do not get into each other's way.
        self.lock = asyncio.Lock()
        # The last change that this process has carried out, until the root says that it is done.
        self._carried_out: Redo | None = None
        self._stored = StoredLimits(-1, {})

    # -- reading ---------------------------------------------------------------------------------

    async def read(self) -> Root:
        """The root, after all that its last change does has been done."""
        root = root_from(await self.connection.meta.find_one({"_id": BOOK}))
        last = self._carried_out
        if root.redo is not None and (last is None or root.version != last.serial):
            redo = redo_from(root.version, root.redo)
            await self.carry_out(redo)
            await self.finish(redo)
        return root

    async def stored(self, root: Root) -> StoredLimits:
        """The stored limits, read again if they were changed."""
        if self._stored.changed != root.limits:
            found = await rows(self.connection.lines.find({"limit_name": {"$gt": ""}}))
            limits = {doc["limit_name"]: stored_from(doc) for doc in found}
            self._stored = StoredLimits(root.limits, limits)
        return self._stored

    # -- changing --------------------------------------------------------------------------------

    async def change(
        self, made: Made[W], work: Callable[[W], T], needs: Callable[[Root], Iterable[Need]]
    ) -> tuple[W, T]:
        """Do some work on the book, as often as it takes until no other change comes between."""
        tries = 0
        while True:
            async with self.lock:
                root = await self.read()
                pages, stored = Pages(self.connection), await self.stored(root)
                await pages.fetch(needs(root))
                book, result = await attempt(pages, root, stored, made, work)
                written = await self.make(book)
            if written is not None:
                await self.finish_last()
                return book, result
            tries += 1
            await asyncio.sleep(random.random() * min(PAUSE * tries, MOST_PAUSE))

    async def make(self, book: Work) -> set[Any] | None:
        """Make the change; returns which jobs it has written, or None if another came first.

        `finish_last` is to follow, when the lock is free for others again.
        """
        redo, new = redo_of(book)
        if redo is None:
            return set()
        if not await self.commit(redo, new, book.root):
            return None
        written = await self.carry_out(redo)
        self._carried_out = redo
        if book.ended:
            over = [DeleteMany({"turns": lane, "round": number}) for lane, number in book.ended]
            await write(self.connection.lines, over)
        return written

    async def commit(self, redo: Redo, new: Sequence[str], root: Root) -> bool:
        """Make the change; False if another came first, and nothing is done."""
        before = redo.serial - 1
        if new:
            await self.make_before(new, before)
        fields = root.fields | {"version": redo.serial, "at": root.at, "redo": redo.encoded()}
        query = {"_id": BOOK, "version": before}
        statement = UpdateOne(query, {"$set": fields}, upsert=not before)
        reply = await write(self.connection.meta, [statement])
        return not reply.refused and reply.documents == 1

    async def make_before(self, new: Sequence[str], version: int) -> None:
        """Make empty pages, to be filled by a change that comes after this one.

        Those that were left by a change that never was are kept from being tidied away.
        """
        empty = [{"_id": key, "gone": True, "serial": version} for key in new]
        reply = await write(self.connection.lines, [InsertOne(page) for page in empty])
        if reply.refused:
            left = [new[at] for at in sorted(reply.refused)]
            await write(self.connection.lines, [kept(key, version) for key in left])

    async def carry_out(self, redo: Redo) -> set[Any]:
        """Do what the change does, as far as it is not done; returns which jobs it has written."""
        writes: list[Awaitable[Any]] = [self._write_jobs(redo)]
        if pages := redo.pages():
            writes.append(write(self.connection.lines, pages))
        if debts := redo.debts():
            writes += [write_each(each, debts) for each in self.connection.collections]
        written, *_ = await asyncio.gather(*writes)
        return set(written)

    async def _write_jobs(self, redo: Redo) -> set[Any]:
        """Write the jobs; one that another program made unwritable holds up nothing."""
        if not redo.jobs:
            return set()
        try:
            return await self.connection.apply(redo.jobs, redo.stamp)
        except BulkWriteError:
            keys = [change.key for change in redo.jobs]
            return await self.connection.existing(keys, {"mulligan.stamp": redo.stamp})

    async def finish_last(self) -> None:
        """Nothing is left to do of the last change that this process has carried out."""
        last = self._carried_out
        if last is not None:
            await self.finish(last)
            if self._carried_out is last:
                self._carried_out = None

    async def finish(self, redo: Redo) -> None:
        """Nothing is left to do of the change."""
        query = {"_id": BOOK, "version": redo.serial}
        await self.connection.meta.update_one(query, {"$unset": {"redo": ""}})

    async def tidy(self) -> None:
        """Delete what was made for changes that never were, and keys of rounds that are over."""
        root = await self.read()
        if not root.version:
            return
        over = {"$nin": [facts.round for facts in root.lanes.values()], "$lte": root.rounds}
        await write(
            self.connection.lines,
            [
                DeleteMany({"gone": True, "serial": {"$lt": root.version - 1}}),
                DeleteMany({"turns": {"$gt": ""}, "round": over}),
            ],
        )


async def attempt(
    pages: Pages, root: Root, stored: StoredLimits, made: Made[W], work: Callable[[W], T]
) -> tuple[W, T]:
    """Do the work on a new draft, again whenever it misses something, which is read."""
    while True:
        book = made(pages, root, stored)
        try:
            return book, work(book)
        except MissingPageError as missing:
            await pages.fetch([missing.need])


def redo_of(book: Work) -> tuple[Redo | None, list[str]]:
    """All that the work does, and which pages are new; None if it does nothing."""
    book.close()
    put, gone, new = book.draft.changed()
    if not (put or gone or book.jobs or book.settled or book.root.fields != book.before.fields):
        return None, []
    serial = book.before.version + 1
    book.root.at = book.at
    return Redo(serial, book.stamp, put, gone, book.jobs, book.settled), new


def kept(key: str, version: int) -> UpdateOne:
    """The write that keeps an empty page, or makes it if it has been tidied away meanwhile."""
    update = {"$setOnInsert": {"gone": True}, "$max": {"serial": version}}
    return UpdateOne({"_id": key}, update, upsert=True)


async def write_each(collection: Collection, statements: Sequence[Statement]) -> None:
    """Carry out what the server does not refuse."""
    with suppress(BulkWriteError):
        await write(collection, statements)


def stored_from(doc: Doc) -> StoredLimit:
    """A limit as it is stored."""
    declared, by_operator = (
        None if text is None else decode_limit(text) for text in (doc["declared"], doc["set"])
    )
    return StoredLimit(declared, by_operator)
