"""Accepting jobs: one insert for the batch; a conflict tells what was there before.

A unique key is held by one job at a time, without a gap between the stages of a chain. Who takes a
key needs both of its locks. A job that ends while a next one is to have its key gives up the first
lock and keeps the second; that next job, its successor, needs the first alone, which nobody else
can have taken. Once the successor is stored, the second lock is released too.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pymongo import InsertOne, UpdateMany

from mulligan.core.job import Enqueued, NewJob
from mulligan.core.settings import check_batch
from mulligan.core.unique import takes_over
from mulligan.stores.mongo import unique
from mulligan.stores.mongo.book import Book
from mulligan.stores.mongo.bulk_write import Change, write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import (
    KEPT_KEY,
    RELEASE_KEY,
    Doc,
    job_number,
    key_name,
    unique_key_of,
)
from mulligan.stores.mongo.fields import new_document
from mulligan.stores.mongo.outbox import (
    UNDELIVERED,
    Box,
    boxes_of,
    pack,
    set_beside,
    take_away,
)
from mulligan.stores.mongo.wakeup import News, Wakeup, news_of


class Enqueuer:
    """Accepts jobs."""

    def __init__(self, connection: Connection, wakeup: Wakeup, book: Book) -> None:
        self.connection = connection
        self.wakeup = wakeup
        self.book = book

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Insert every job that is not there yet; see the contract."""
        check_batch(len(jobs))
        if not jobs:
            return []
        now = await self.connection.now()
        number = await self.connection.numbers(len(jobs))
        docs = [new_document(job, now, at) for at, job in enumerate(jobs, number)]
        await self.connection.enter_lanes(each.lane for each in news_of(docs))
        answers: dict[int, Enqueued] = {}
        new: list[Doc] = []
        ours: dict[str, int] = {}
        left = list(range(len(docs)))
        if len(jobs) == 1 and jobs[0].debounce_max is not None:
            # An insert that is refused while others debounce the holder may deadlock with them.
            answers = await self.first_ones(jobs, docs, left, ours)
            left = [] if answers else left
        while left:
            asked = [docs[at] for at in left]
            created = {id(doc) for doc in await insert_whole(self.connection, asked)}
            for at in left:
                if id(docs[at]) in created:
                    ours.setdefault(jobs[at].id, at)
                    answers[at] = Enqueued(jobs[at].id, created=True)
                    new.append(docs[at])
            refused = [at for at in left if at not in answers]
            answers |= await self.first_ones(jobs, docs, refused, ours)
            left = [at for at in refused if at not in answers]
            # The jobs that had their unique keys have ended: their successors have them, or nobody.
            await free_keys(self.connection, keys_to_take(docs[at] for at in left))
        await self.wakeup.wake(await self.book.accept(new))
        return [answers[at] for at in range(len(jobs))]

    async def first_ones(
        self, jobs: Sequence[NewJob], docs: list[Doc], refused: list[int], ours: dict[str, int]
    ) -> dict[int, Enqueued]:
        """The jobs that were there before those of the batch that were refused, by their index.

        A later job of the same batch may have the same id, and was not there before. Where one
        that has a key did not have it any more, nothing is said of the job that wants it.
        """
        if not refused:
            return {}
        found = await self.connection.find_anywhere([docs[at]["_id"] for at in refused])
        answers: dict[int, Enqueued] = {}
        for at in refused:
            private = docs[at]["mulligan"]
            if docs[at]["_id"] in found and ours.get(docs[at]["_id"], -1) < at:
                answers[at] = Enqueued(docs[at]["_id"], created=False)
                continue
            if "unique_key" not in private:
                continue
            first = await self.holder(private)
            if first is None or not await self.debounce(first, jobs[at], job_number(docs[at])):
                # Later ones of the batch must find what becomes of this one.
                break
            answers[at] = Enqueued(str(first["_id"]), created=False)
        return answers

    async def holder(self, wanted: Doc) -> Doc | None:
        """The job that holds the key that these private fields name."""
        queue, key = wanted["unique_queue"], wanted["unique_key"]
        unended = {
            "mulligan.unique_queue": queue,
            "mulligan.unique_key": key,
            "status": {"$gte": "p"},
        }
        first = await self.connection.tasks.find_one(unended, unique.READ)
        if first is None:
            throttled = {KEPT_KEY: key_name(queue, key), "mulligan.unique_until": {"$gt": 0}}
            first = await self.connection.tasks.find_one(throttled, unique.READ)
        now = await self.connection.now()
        return first if first is not None and unique.holds(first, now) else None

    async def debounce(self, first: Doc, new: NewJob, sequence: int) -> bool:
        """Call a debounced job as the new one; False if it was claimed or ended meanwhile.

        A job that is not debounced, or does not take over the call, stays as it is.
        """
        if "debounce_until" not in first["mulligan"] or not takes_over(str(first["_id"]), new):
            return True
        change, events = unique.debounced(first, new, await self.connection.now(), sequence)
        if not await self.connection.apply([change]):
            return False
        if events:
            await self.book.tell_and_wake(events)
        else:
            fields = change.update["$set"]
            await self.wakeup.wake([News(fields["mulligan.lane"], fields["mulligan.due"])])
        return True


async def deliver(connection: Connection, boxes: Sequence[Box]) -> set[str]:
    """Enqueue what is in these boxes and then empty them; returns the ids that are news.

    A job that is there already, by its id or its unique key, is left as it is. A successor is news
    even if another process has stored it: nobody was woken for it yet.
    """
    if not boxes:
        return set()
    every = [job for box in boxes for job in box.jobs]
    created = await store_next(connection, every)
    await empty(connection, boxes)
    return {doc["_id"] for doc in [*created, *filter(is_successor, every)]}


async def empty(connection: Connection, boxes: Sequence[Box]) -> None:
    """Forget these boxes: all their jobs are stored."""
    release = {"mulligan.outbox": "", **RELEASE_KEY}
    kinds = (
        ([b for b in boxes if not b.keeps], release),
        (
            [b for b in boxes if b.keeps],
            {"mulligan.outbox": ""},
        ),
    )
    await write(connection.tasks, [emptied(some, fields) for some, fields in kinds if some])
    await take_away(connection, boxes)


def emptied(boxes: Sequence[Box], fields: Doc) -> UpdateMany:
    """The write by which the jobs of these boxes forget them, and these fields."""
    query = {
        "_id": {"$in": [box.parent for box in boxes]},
        "mulligan.outbox.stamp": {"$in": [box.stamp for box in boxes]},
    }
    return UpdateMany(query, {"$unset": fields})


async def store_next(connection: Connection, docs: Sequence[Doc]) -> list[Doc]:
    """Insert next jobs that are not there yet; returns those.

    A successor is stored in any case: without the key if another program gave that away.
    """
    await connection.enter_lanes(each.lane for each in news_of(docs))
    created = await insert_where_free(connection, docs)
    new = {doc["_id"] for doc in created}
    successors = [doc for doc in docs if is_successor(doc) and doc["_id"] not in new]
    if not successors:
        return created
    there = await connection.find_anywhere([doc["_id"] for doc in successors])
    lost = [keyless(doc) for doc in successors if doc["_id"] not in there]
    return created + await insert_new(connection, lost)


# -- keys ----------------------------------------------------------------------------------


async def insert_where_free(connection: Connection, docs: Sequence[Doc]) -> list[Doc]:
    """Insert the documents that are not there yet and whose key no other job has."""
    created: list[Doc] = []
    left = list(docs)
    while left:
        created += await insert(connection, left)
        new = {id(doc) for doc in created}
        refused = [doc for doc in left if id(doc) not in new]
        freed = await free_keys(connection, keys_to_take(refused))
        left = [doc for doc in refused if doc["mulligan"].get("kept_key") in freed]
    return created


async def write_where_free(connection: Connection, changes: Sequence[Change]) -> set[Any]:
    """Write what still matches and whose key no other job has; returns the keys of that.

    Of changes that want the same key the first has the first chance.
    """
    first: list[Change] = []
    later: list[Change] = []
    keys: set[str] = set()
    for change in changes:
        key = change.update["$set"].get(KEPT_KEY)
        (later if key in keys else first).append(change)
        keys |= {key} - {None}
    written = await connection.apply(first)
    refused = [c for c in first if c.key not in written and KEPT_KEY in c.update["$set"]]
    freed = await free_keys(connection, {change.update["$set"][KEPT_KEY] for change in refused})
    left = [change for change in refused if change.update["$set"][KEPT_KEY] in freed] + later
    return written | await write_where_free(connection, left) if left else written


async def free_keys(connection: Connection, keys: set[str]) -> set[str]:
    """Have jobs that do not hold these keys release them; returns which had one.

    An ended job has its key still if another program finished it, or its successor is on its way:
    then that is stored before. A debounced one that has started has it until now.
    """
    if not keys:
        return set()
    now = await connection.now()
    lent = [{"status": {"$not": {"$gte": "p"}}}, {"mulligan.debounce_until": {"$gt": 0}}]
    query = {KEPT_KEY: {"$in": list(keys)}, "$or": lent}
    found = await rows(connection.tasks.find(query, unique.READ))
    found = [doc for doc in found if not unique.holds(doc, now)]
    started = [doc for doc in found if doc.get("status") in ("pending", "processing")]
    await connection.apply([unique.given_up(doc) for doc in started])
    ended = [doc for doc in found if doc not in started]
    boxes = await boxes_of(connection, ended)
    await store_next(connection, [job for box in boxes for job in box.jobs if is_successor(job)])
    await connection.apply([released(doc) for doc in ended])
    return {doc["mulligan"]["kept_key"] for doc in found}


def released(doc: Doc) -> Change:
    """The write by which an ended job releases its key, unless it was replayed meanwhile."""
    private = doc["mulligan"]
    match = {
        "status": doc.get("status"),
        "mulligan.outbox.stamp": (private.get("outbox") or {}).get("stamp"),
    }
    return Change(doc["_id"], match, {"$unset": dict(RELEASE_KEY)}, private["token"])


# -- inserts -------------------------------------------------------------------------------


async def insert_whole(connection: Connection, docs: Sequence[Doc]) -> list[Doc]:
    """As `insert`, but a gathering job and all other jobs of the batch are stored, or none is.

    The gathering job is stored first, with the others in its outbox until they are stored too.
    """
    first = next(iter(gathering(docs)), None)
    if first is None or len(with_rivals([first], docs)) > 1:
        return await insert(connection, docs)
    others = [doc for doc in docs if doc is not first]
    box = pack(first["_id"], 0, others, keeps=True, now=await connection.now())
    await set_beside(connection, [box])
    boxed = first | {"mulligan": first["mulligan"] | {"outbox": box.field}}
    if not await insert(connection, [boxed]):
        await take_away(connection, [box])
        # The caller may ask again: the members may be in the outbox still.
        before = await rows(connection.tasks.find({"_id": first["_id"], **UNDELIVERED}))
        await deliver(connection, await boxes_of(connection, before))
        return await insert(connection, others)
    stored = await insert_where_free(connection, others)
    await empty(connection, [box])
    return [first, *stored]


def gathering(docs: Sequence[Doc]) -> list[Doc]:
    """Return the jobs at which others of these gather."""
    awaited = {doc["mulligan"].get("gather") for doc in docs}
    return [doc for doc in docs if doc["_id"] in awaited]


async def insert(connection: Connection, docs: Sequence[Doc]) -> list[Doc]:
    """Insert the documents that are not there yet; returns those.

    A job that others of these gather at is there before any of them could arrive.
    """
    if connection.url.move_dead:
        ids = [doc["_id"] for doc in docs]
        gone = {
            doc["_id"] for doc in await rows(connection.dlq.find({"_id": {"$in": ids}}, {"_id": 1}))
        }
        docs = [doc for doc in docs if doc["_id"] not in gone]
    first = with_rivals(gathering(docs), docs)
    ahead = {id(doc) for doc in first}
    others = [doc for doc in docs if id(doc) not in ahead]
    return await insert_new(connection, first) + await insert_new(connection, others)


def with_rivals(some: Sequence[Doc], docs: Sequence[Doc]) -> list[Doc]:
    """These documents, and all that want an id or a unique key of theirs, in their order.

    They are inserted together, so that of those that want the same the first has it.
    """
    ids = {doc["_id"] for doc in some}
    keys = {unique_key_of(doc) for doc in some} - {None}
    found = [doc for doc in docs if doc["_id"] in ids or unique_key_of(doc) in keys]
    return found if len(found) == len(some) else with_rivals(found, docs)


async def insert_new(connection: Connection, docs: list[Doc]) -> list[Doc]:
    """Insert, in one command, the documents that break no unique index; returns these."""
    if not docs:
        return []
    there = (await write(connection.tasks, [InsertOne(doc) for doc in docs])).refused
    return [doc for at, doc in enumerate(docs) if at not in there]


def keys_to_take(docs: Iterable[Doc]) -> set[str]:
    """The keys that new jobs need both locks of."""
    return {doc["mulligan"]["kept_key"] for doc in docs if "kept_key" in doc["mulligan"]}


def hand_on_key(parent: Doc, following: Iterable[Doc]) -> str | None:
    """Make the first next job with the finished one's key its successor; returns the key to keep.

    Where the finished job never held its key, the successor does not either. A debounced or a
    throttled job has no successor.
    """
    if not {"debounce_until", "unique_until"}.isdisjoint(parent["mulligan"]):
        return None
    lost = parent["mulligan"].get("lost_key")
    key = lost or unique_key_of(parent)
    for doc in following:
        if key and doc["mulligan"].get("kept_key") == key:
            if lost:
                doc["mulligan"] = keyless(doc)["mulligan"]
                return None
            del doc["mulligan"]["kept_key"]
            return key
    return None


def is_successor(doc: Doc) -> bool:
    """Whether a next job takes over the key of the job before it."""
    return "unique_key" in doc["mulligan"] and "kept_key" not in doc["mulligan"]


def keyless(doc: Doc) -> Doc:
    """The same job without its key; `lost_key` says so to its own successor."""
    gone = ("unique_key", "unique_queue", "unique_in", "kept_key")
    private = {name: value for name, value in doc["mulligan"].items() if name not in gone}
    return doc | {"mulligan": private | {"lost_key": unique_key_of(doc)}}
