"""What every part of the store stands on: collections, the clock, the counter, fenced writes."""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from bson import ObjectId, encode
from msgspec import Struct
from pymongo import AsyncMongoClient, InsertOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.cursor import AsyncCursor

from mulligan.core.job import TOKENS_PER_LIFE
from mulligan.core.lane import Lane
from mulligan.stores.mongo.address import Address
from mulligan.stores.mongo.codec import TO_READ
from mulligan.stores.mongo.colliding import Patient, write
from mulligan.stores.mongo.times import micros, of_date

Doc = dict[str, Any]
Collection = AsyncCollection[Doc]

CLOCK_AGE = 30.0
CLOCK_SAMPLES = 3
HEX_ID = 24
# Nobody claims a job so often between a read and the write that follows it.
APART = TOKENS_PER_LIFE // 4
PAGE = 10_000
# So many writes may follow one whose stamp is kept before it is forgotten.
KEPT_STAMPS = 8
# How the key of a lane's document among the facts begins; it is there once the lane was used.
LANE = "lane:"
# The key among the facts of the task that runs what names none.
DEFAULT_TASK = "default_task"


class Change(Struct):
    """One fenced write: it happens only if the document still matches, and has the token.

    Its stamp gives way to that of the next write, unless it is `kept`: after a write that leaves
    the job for others to claim, they may be quicker than the look at what was written.
    """

    key: Any
    match: Doc
    update: Doc
    token: int | None = None
    kept: bool = False

    @property
    def query(self) -> Doc:
        """The document, if it is still as it was."""
        fence = {} if self.token is None else {"mulligan.token": self.token}
        return {"_id": self.key, **self.match, **fence}


class Base:
    """A connection to one database, used from one event loop."""

    def __init__(self, address: Address, clock: Callable[[], float] | None) -> None:
        self.address = address
        self._clock = clock
        self._offset = 0.0
        self._measured = float("-inf")
        self._measuring = asyncio.Lock()
        self.lines: set[str] = set()
        # The task that runs what names none: as the URL says, else as the first worker said.
        self.default_task = address.default_task
        self.client: AsyncMongoClient[Doc] = AsyncMongoClient(
            address.url, tz_aware=True, appname="mulligan"
        )
        database = self.client[address.database]

        def named(suffix: str = "") -> Collection:
            return Patient(database, address.collection + suffix, codec_options=TO_READ)

        self.tasks = named()
        self.dlq = named("_dlq")
        self.outbox = named("_outbox")
        self.arrivals = named("_arrivals")
        self.limits = named("_gates")
        self.workers = named("_workers")
        self.sleepers = named("_sleepers")
        self.counts = named("_counts")
        self.notes = named("_notes")
        self.meta = named("_meta")

    @property
    def places(self) -> tuple[Collection, ...]:
        """Where jobs may be: among the tasks, and with `move_dead` among the dead letters."""
        return (self.tasks, self.dlq) if self.address.move_dead else (self.tasks,)

    # -- time ------------------------------------------------------------------------------

    async def now(self) -> int:
        """The store's time in microseconds: the server's, measured now and then."""
        if self._clock is not None:
            return micros(self._clock())
        if time.monotonic() - self._measured > CLOCK_AGE:
            async with self._measuring:
                if time.monotonic() - self._measured > CLOCK_AGE:
                    await self.measure()
        return micros(time.monotonic() + self._offset)

    async def measure(self) -> float:
        """Ask the server for its time; returns by how many seconds this machine's differs."""
        best: tuple[float, float] | None = None
        for _ in range(CLOCK_SAMPLES):
            before = time.monotonic()
            reply = await self.client.admin.command("hello")
            after = time.monotonic()
            # A date is cut to the millisecond, so on average it is half of one behind.
            at = of_date(reply["localTime"]) / 1e6 + 0.0005
            sample = (after - before, at - (before + after) / 2)
            best = min(best, sample) if best else sample
        self._offset = best[1] if best else 0.0
        self._measured = time.monotonic()
        return time.time() - (time.monotonic() + self._offset)

    # -- numbers and lanes -----------------------------------------------------------------

    async def numbers(self, count: int) -> int:
        """Draw this many numbers from the store's counter; returns the first."""
        if not count:
            return 0
        counter = await self.meta.find_one_and_update(
            {"_id": "sequence"},
            {"$inc": {"value": count}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        return int((counter or {})["value"]) - count + 1

    async def facts_document(self) -> Doc:
        """Settings, pauses, regions and breakers, in one read."""
        return await self.meta.find_one({"_id": "facts"}) or {}

    async def epoch(self) -> int:
        """How often what plans are made from has changed."""
        facts = await self.meta.find_one({"_id": "facts"}, {"epoch": 1}) or {}
        return int(facts.get("epoch", 0))

    async def know(self, lines: Iterable[str]) -> None:
        """Enter lanes that jobs are about to join, so that every claim looks there."""
        lines = set(lines)
        new = lines - await self.used(lines)
        if new:
            await enter(self.meta, new)
            self.lines |= new

    async def used(self, lines: Iterable[str]) -> set[str]:
        """Those of the lanes that jobs have ever joined."""
        lines = set(lines)
        if unknown := lines - self.lines:
            keys = [LANE + line for line in unknown]
            for doc in await rows(self.meta.find({"_id": {"$in": keys}}, {"_id": 1})):
                self.learn(doc["_id"])
        return lines & self.lines

    def learn(self, key: str) -> None:
        """Know a lane by the key of its document."""
        self.lines.add(key.removeprefix(LANE))

    # -- the default task ------------------------------------------------------------------

    async def read_default_task(self) -> None:
        """Know the task that runs what names none, where the URL does not say."""
        if self.address.default_task is None:
            stored = await self.meta.find_one({"_id": DEFAULT_TASK})
            self.learn_default_task(None if stored is None else stored.get("task"))

    def learn_default_task(self, task: Any) -> None:
        """What is stored goes for those whose URL says nothing."""
        if self.address.default_task is None and isinstance(task, str | None):
            self.default_task = task

    async def store_default_task(self) -> None:
        """Store what the URL says with the collection, for all who say nothing; the first wins."""
        task = self.address.default_task
        if task is not None:
            said = {"$setOnInsert": {"task": task}}
            await self.meta.update_one({"_id": DEFAULT_TASK}, said, upsert=True)

    # -- writing ---------------------------------------------------------------------------

    async def apply(self, changes: Sequence[Change], stamp: str | None = None) -> set[Any]:
        """Write what still matches, in one command; returns the keys of what was written.

        Each written document carries the stamp, by which those are told from the others when not
        all matched. What has been deleted since carries none, and is told by the count.
        """
        if not changes:
            return set()
        stamp = stamp or new_stamp()
        every = {change.key for change in changes}
        reply = await write(self.tasks, statements(changes, stamp))
        if reply.documents == len(every):
            return every
        stamped = [{"mulligan.stamp": stamp}, {"mulligan.stamps": stamp}]
        written = await self.there(every, {"$or": stamped})
        at_most = written | (every - await self.there(every))
        return at_most if reply.documents == len(at_most) else written

    async def there(self, keys: Iterable[Any], query: Doc | None = None) -> set[Any]:
        """Which of the documents are there, wherever, and match."""
        query = {"_id": {"$in": list(keys)}, **(query or {})}
        found = [await rows(place.find(query, {"_id": 1})) for place in self.places]
        return {doc["_id"] for docs in found for doc in docs}

    async def find(self, jobs: Sequence[str], fields: Doc | None = None) -> dict[str, Doc]:
        """The documents of these jobs among the tasks, by job id."""
        keys = [key for job in jobs for key in keys_of(job)]
        return await by_id(self.tasks, keys, fields)

    async def find_anywhere(self, jobs: Sequence[str]) -> dict[str, Doc]:
        """The documents of these jobs wherever they are; the tasks' own copy is the true one."""
        keys = [key for job in jobs for key in keys_of(job)]
        found: dict[str, Doc] = {}
        for place in reversed(self.places):
            found |= await by_id(place, keys, None)
        return found


async def rows(cursor: AsyncCursor[Doc]) -> list[Doc]:
    """All that a query finds, in one reply unless it is huge."""
    return await cursor.batch_size(PAGE).to_list()


async def enter(meta: Collection, lines: Iterable[str]) -> None:
    """Say of lanes that they are used; another process may be doing the same."""
    await write(meta, [InsertOne({"_id": LANE + line}) for line in sorted(lines)])


async def by_id(collection: Collection, keys: Sequence[Any], fields: Doc | None) -> dict[str, Doc]:
    """Documents by the text of their key."""
    if not keys:
        return {}
    found = await rows(collection.find({"_id": {"$in": keys}}, fields))
    found.sort(key=lambda doc: isinstance(doc["_id"], str))  # text wins over an ObjectId
    return {str(doc["_id"]): doc for doc in found}


def keys_of(job: str) -> list[Any]:
    """The keys that a job id may stand for: another program's documents have ObjectIds."""
    if len(job) == HEX_ID and ObjectId.is_valid(job):
        return [job, ObjectId(job)]
    return [job]


def statements(changes: Sequence[Change], stamp: str) -> list[UpdateOne | UpdateMany]:
    """The changes as updates, in the order of their keys, so that two such writes rarely collide.

    Those that are alike but for key and token become one.
    """
    alike: dict[tuple[bytes, bool], list[Change]] = {}
    forms: dict[tuple[int, int], bytes] = {}  # what shares its parts is encoded once
    for change in sorted(changes, key=lambda each: str(each.key)):
        parts = id(change.match), id(change.update)
        if parts not in forms:
            put_stamp(change, stamp)
            forms[parts] = encode({"m": change.match, "u": change.update})
        alike.setdefault((forms[parts], change.token is None), []).append(change)
    groups = [part for group in alike.values() for part in told_apart(group)]
    return [statement(group) for group in sorted(groups, key=lambda each: str(each[0].key))]


def put_stamp(change: Change, stamp: str) -> None:
    """Have the update leave the stamp, beside those that are kept or in place of the last."""
    fields = change.update.setdefault("$set", {})
    if "mulligan" in fields:
        fields["mulligan"]["stamp"] = stamp
    elif change.kept:
        last = {"$each": [stamp], "$slice": -KEPT_STAMPS}
        change.update.setdefault("$push", {})["mulligan.stamps"] = last
    else:
        fields["mulligan.stamp"] = stamp


def told_apart(changes: list[Change]) -> list[list[Change]]:
    """The changes in groups in which no document can come to have the token of another.

    Each job has thousands of tokens to itself, so that is nearly always one group. Documents from
    before that was so are each alone.
    """
    tokens = sorted(change.token for change in changes if change.token is not None)
    close = {token for pair in pairwise(tokens) if pair[1] - pair[0] < APART for token in pair}
    together = [change for change in changes if change.token not in close]
    alone = [[change] for change in changes if change.token in close]
    return [together, *alone] if together else alone


def statement(group: list[Change]) -> UpdateOne | UpdateMany:
    """One update for changes that are alike: of documents among these, with tokens among these."""
    first = group[0]
    if len(group) == 1:
        return UpdateOne(first.query, first.update)
    query: Doc = {"_id": {"$in": [change.key for change in group]}, **first.match}
    if first.token is not None:
        query["mulligan.token"] = {"$in": [change.token for change in group]}
    return UpdateMany(query, first.update)


def new_stamp(now: int = 0) -> str:
    """A name for one write that no other has; it tells its age where that matters."""
    return f"{now:x}.{secrets.token_hex(8)}"


def stamped_at(stamp: str) -> int:
    """When a stamp was made, in microseconds."""
    return int(stamp.partition(".")[0], 16)


def line_of(lane: Lane) -> str:
    """The lane in one word; names have no control characters, so it is never ambiguous."""
    return f"{lane.priority}\x1f{lane.queue}\x1f{lane.scope}"
