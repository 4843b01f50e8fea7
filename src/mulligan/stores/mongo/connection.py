"""The connection to one database: its collections, the store's clock and counter, fenced writes.

What all other files of this store use, and what the errors of the driver mean.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from bson import ObjectId
from pymongo import AsyncMongoClient, InsertOne, ReadPreference, ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.errors import (
    ConnectionFailure,
    ProtocolError,
    PyMongoError,
    WaitQueueTimeoutError,
)

from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.stores.mongo.bulk_write import (
    Change,
    RetryingCollection,
    new_stamp,
    statements,
    write,
)
from mulligan.stores.mongo.document import TO_READ, Doc, micros, of_date
from mulligan.stores.mongo.reach import Reach
from mulligan.stores.mongo.url import StoreUrl

Collection = AsyncCollection[Doc]

# A reply that was cut in its middle leaves a connection that answers what nobody asked.
AWAY = (ConnectionFailure, WaitQueueTimeoutError, ProtocolError)
CLOCK_AGE = 30.0
# So often the server is asked for its time; more often while answers take longer than this.
CLOCK_SAMPLES, MOST_CLOCK_SAMPLES = 3, 10
SLOW_ANSWER = 0.2
HEX_ID = 24
PAGE = 10_000
# How the key of a lane's document in `meta` begins; the document is there once the lane was used.
LANE = "lane:"
# The key in `meta` of the root of the book of lines and limits.
BOOK = "book"
# The key in `meta` of the task that runs documents which name none.
DEFAULT_TASK = "default_task"


class HasUrl(Protocol):
    """A store whose operations are guarded."""

    parsed_url: StoreUrl


P = ParamSpec("P")
S = TypeVar("S", bound=HasUrl)
T = TypeVar("T")
Method = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


def guarded(method: Method[S, P, T]) -> Method[S, P, T]:
    """Raise errors of the driver as the contract's own, and never with the password."""

    @wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        url = self.parsed_url
        try:
            return await method(self, *args, **kwargs)
        except AWAY as error:
            raise StoreUnavailableError(
                f"MongoDB at {url.where} cannot be reached: {url.without_secrets(error)}"
            ) from None
        except PyMongoError as error:
            raise StoreError(
                f"MongoDB at {url.where} refused: {url.without_secrets(error)}"
            ) from None

    return call


class Connection:
    """A connection to one database, used from one event loop."""

    def __init__(self, url: StoreUrl, clock: Callable[[], float] | None) -> None:
        self.url = url
        self._clock = clock
        self._offset = 0.0
        # By how many microseconds `now` may be wrong.
        self.doubt = 0
        self._measured = float("-inf")
        self._measuring = asyncio.Lock()
        self.lanes: set[str] = set()
        # The task that runs documents which name none: as the URL says, else as is stored.
        self.default_task = url.default_task
        self.client: AsyncMongoClient[Doc] = AsyncMongoClient(
            url.for_driver, tz_aware=True, appname="mulligan"
        )
        database = self.client[url.database]

        def named(suffix: str = "", reads: Any = None) -> Collection:
            name = url.collection + suffix
            return RetryingCollection(database, name, codec_options=TO_READ, read_preference=reads)

        self.tasks = named()
        self.reach = Reach(self.tasks)
        self.dlq = named("_dlq")
        self.outbox = named("_outbox")
        self.arrivals = named("_arrivals")
        self.records = named("_records")
        self.limits = named("_limits")
        self.lines = named("_lines", ReadPreference.PRIMARY)
        self.workers = named("_workers")
        self.sleepers = named("_sleepers")
        self.counts = named("_counts")
        self.notes = named("_notes")
        self.schedules = named("_schedules")
        self.meta = named("_meta", ReadPreference.PRIMARY)

    @property
    def collections(self) -> tuple[Collection, ...]:
        """Where jobs may be: among the tasks, and with `move_dead` among the dead letters."""
        return (self.tasks, self.dlq) if self.url.move_dead else (self.tasks,)

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
        low, high = float("-inf"), float("inf")
        for sample in range(MOST_CLOCK_SAMPLES):
            if sample >= CLOCK_SAMPLES and high - low <= SLOW_ANSWER:
                break
            before = time.monotonic()
            reply = await self.client.admin.command("hello")
            after = time.monotonic()
            # It read its clock between the two, and cut the time to the millisecond.
            at = of_date(reply["localTime"]) / 1e6
            bounds = at - after, at + 0.001 - before
            low, high = max(low, bounds[0]), min(high, bounds[1])
            if low > high:  # its clock was set
                low, high = bounds
        self._offset = (low + high) / 2
        self.doubt = micros((high - low) / 2)
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
        """The epoch: how often the facts that plans are made from have changed."""
        facts = await self.meta.find_one({"_id": "facts"}, {"epoch": 1}) or {}
        return int(facts.get("epoch", 0))

    async def enter_lanes(self, lanes: Iterable[str]) -> None:
        """Mark lanes that jobs are about to join as used, so that every claim looks there."""
        lanes = set(lanes)
        new = lanes - await self.used_lanes(lanes)
        if new:
            await enter(self.meta, new)
            self.lanes |= new

    async def used_lanes(self, lanes: Iterable[str]) -> set[str]:
        """Those of the lanes that jobs have ever joined."""
        lanes = set(lanes)
        if unknown := lanes - self.lanes:
            keys = [LANE + lane for lane in unknown]
            for doc in await rows(self.meta.find({"_id": {"$in": keys}}, {"_id": 1})):
                self.add_lane(doc["_id"])
        return lanes & self.lanes

    def add_lane(self, key: str) -> None:
        """Remember a lane as used, by the key of its document."""
        self.lanes.add(key.removeprefix(LANE))

    # -- the default task ------------------------------------------------------------------

    async def read_default_task(self) -> None:
        """Read which task runs documents that name none, unless the URL says it."""
        if self.url.default_task is None:
            stored = await self.meta.find_one({"_id": DEFAULT_TASK})
            self.learn_default_task(None if stored is None else stored.get("task"))

    def learn_default_task(self, task: Any) -> None:
        """The stored task holds for those whose URL names none."""
        if self.url.default_task is None and isinstance(task, str | None):
            self.default_task = task

    async def store_default_task(self) -> None:
        """Store the task that the URL names, for those whose URL names none; the first wins."""
        task = self.url.default_task
        if task is not None:
            said = {"$setOnInsert": {"task": task}}
            await self.meta.update_one({"_id": DEFAULT_TASK}, said, upsert=True)

    # -- writing ---------------------------------------------------------------------------

    async def apply(self, changes: Sequence[Change], stamp: str | None = None) -> set[Any]:
        """Write what still matches, in one command; returns the keys of what was written.

        Each written document carries the stamp: it tells which were written when not all matched.
        A document that was deleted since carries none; the number of matches tells of those.
        """
        if not changes:
            return set()
        stamp = stamp or new_stamp()
        every = {change.key for change in changes}
        reply = await write(self.tasks, statements(changes, stamp))
        if reply.documents == len(every):
            return every
        stamped = [{"mulligan.stamp": stamp}, {"mulligan.stamps": stamp}]
        written = await self.existing(every, {"$or": stamped})
        at_most = written | (every - await self.existing(every))
        return at_most if reply.documents == len(at_most) else written

    async def existing(self, keys: Iterable[Any], query: Doc | None = None) -> set[Any]:
        """Which of the documents exist, in any collection of jobs, and match."""
        query = {"_id": {"$in": list(keys)}, **(query or {})}
        found = [await rows(collection.find(query, {"_id": 1})) for collection in self.collections]
        return {doc["_id"] for docs in found for doc in docs}

    async def find(self, jobs: Sequence[str], fields: Doc | None = None) -> dict[str, Doc]:
        """The documents of these jobs among the tasks, by job id."""
        keys = [key for job in jobs for key in keys_of(job)]
        return await by_id(self.tasks, keys, fields)

    async def find_anywhere(self, jobs: Sequence[str], fields: Doc | None = None) -> dict[str, Doc]:
        """The documents of these jobs wherever they are; the tasks' own copy is the true one."""
        keys = [key for job in jobs for key in keys_of(job)]
        found: dict[str, Doc] = {}
        for collection in reversed(self.collections):
            found |= await by_id(collection, keys, fields)
        return found


async def rows(cursor: AsyncCursor[Doc]) -> list[Doc]:
    """All that a query finds, in one reply unless it is huge."""
    return await cursor.batch_size(PAGE).to_list()


async def enter(meta: Collection, lanes: Iterable[str]) -> None:
    """Mark lanes as used; another process may be doing the same."""
    await write(meta, [InsertOne({"_id": LANE + lane}) for lane in sorted(lanes)])


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
