"""Schedules: a record each, and the ticks that are placed and withdrawn with it.

A change is written into the schedule's document as a whole, then carried out, then finished: from
the first write on it holds, and whoever comes upon it carries it out. All that it does is fixed in
it, so that doing it twice is the same as once.

Who carries it out may be stopped anywhere, and go on when the change is long over. So a tick is
inserted without a lane, with the mark of who does it. If the change is under way even then, it
joins its lane, provided that it still has that mark. A change is over only when none of its ticks
has a mark: so whatever comes too late finds the change over, or no mark of its own.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from pymongo import DeleteMany, UpdateMany, UpdateOne
from pymongo.errors import DuplicateKeyError

from mulligan.core.reschedule import WITHDRAWN, Reschedule
from mulligan.core.settings import check_batch
from mulligan.stores.mongo.bulk_write import new_stamp, write
from mulligan.stores.mongo.connection import rows
from mulligan.stores.mongo.document import NEVER, NEVER_STARTED, PLACING, TO_WRITE, Doc
from mulligan.stores.mongo.enqueue import insert_where_free
from mulligan.stores.mongo.events import UNBOOKED
from mulligan.stores.mongo.facts import StoredFacts
from mulligan.stores.mongo.fields import new_document
from mulligan.stores.mongo.gather import cancelled
from mulligan.stores.mongo.operate import Operator
from mulligan.stores.mongo.wakeup import news_of

UNFINISHED = {"doing.stamp": {"$gt": ""}}
UNPLACED = {"status": "pending", "mulligan.lane": PLACING}


class Doing(Struct, frozen=True):
    """A change that is being carried out: ticks to withdraw by id and number, and new documents."""

    name: str
    stamp: str
    record: str | None
    withdraw: list[list[Any]]
    place: list[Doc]
    edit: bool

    @property
    def field(self) -> Doc:
        """What the schedule's document says of it."""
        return {
            "stamp": self.stamp,
            "record": self.record,
            "withdraw": self.withdraw,
            "place": self.place,
            "edit": self.edit,
        }


class Schedules:
    """How schedules are kept and changed."""

    def __init__(self, operator: Operator, facts: StoredFacts) -> None:
        self.connection = operator.connection
        self.operator = operator
        self.facts = facts
        self.stored = self.connection.schedules

    async def schedules(self) -> dict[str, bytes]:
        """The records by name; those of changes under way are as after them."""
        found: dict[str, bytes] = {}
        fields = {"record": 1, "doing.record": 1}
        for doc in await rows(self.stored.find({}, fields).sort("_id", 1)):
            record = doc.get("doing", doc).get("record")
            if isinstance(record, str):
                found[str(doc["_id"])] = record.encode()
        return found

    async def reschedule(self, change: Reschedule) -> bool:
        """Replace the record if it is still the one before, with its ticks."""
        check_batch(len(change.place))
        before, after = text_of(change.before), text_of(change.after)
        while True:
            doc = await self.read(change.name)
            if doc is not None and "doing" in doc:
                await self.finish(doing_of(doc))
                continue
            stored = None if doc is None else doc["record"]
            if stored != before:
                return bool(stored == after)
            doing = await self.prepared(change, after)
            if await self.begin(doing, before):
                await self.finish(doing)
                return True

    async def read(self, name: str) -> Doc | None:
        """The document of a schedule, with its jobs as they are written."""
        return await self.stored.with_options(TO_WRITE).find_one({"_id": name})

    async def prepared(self, change: Reschedule, after: str | None) -> Doing:
        """The change with all that it does."""
        now = await self.connection.now()
        number = await self.connection.numbers(len(change.place))
        docs = [new_document(job, now, at) for at, job in enumerate(change.place, number)]
        await self.connection.enter_lanes(each.lane for each in news_of(docs))
        placed = await self.connection.find(change.withdraw, {"mulligan.number": 1})
        gone = [[job, doc["mulligan"]["number"]] for job, doc in placed.items()]
        return Doing(change.name, new_stamp(), after, gone, docs, change.edit)

    async def begin(self, doing: Doing, before: str | None) -> bool:
        """Write the change into the document; False if another was first."""
        if before is None:
            doc = {"_id": doing.name, "record": None, "doing": doing.field}
            try:
                await self.stored.insert_one(doc)
            except DuplicateKeyError:
                # A command that was answered too late is sent again by the driver.
                query = {"_id": doing.name, "doing.stamp": doing.stamp}
                return await self.stored.find_one(query, {"_id": 1}) is not None
            return True
        reply = await self.stored.update_one(
            {"_id": doing.name, "record": before, "doing": None}, {"$set": {"doing": doing.field}}
        )
        return bool(reply.matched_count)

    async def finish_left(self) -> None:
        """Carry out what others began and did not finish."""
        for doc in await rows(self.stored.with_options(TO_WRITE).find(UNFINISHED)):
            await self.finish(doing_of(doc))
        await self.sweep()

    async def finish(self, doing: Doing) -> None:
        """Carry the change out, as far as it is not."""
        this = {"_id": doing.name, "doing.stamp": doing.stamp}
        for job, number in doing.withdraw:
            await self.withdraw(job, number)
        if doing.place:
            await self.place(doing)
        if doing.edit:
            await self.facts.turn()
        if doing.record is None:
            await self.stored.delete_one(this)
        else:
            done = {"$set": {"record": doing.record}, "$unset": {"doing": ""}}
            await self.stored.update_one(this, done)

    async def place(self, doing: Doing) -> None:
        """Have the ticks of the change stand in their lanes, unless it is over."""
        if not await self.is_under_way(doing.stamp):
            return
        mark = new_stamp()
        ours = len(await self.insert(doing, mark))
        while True:
            if ours < len(doing.place):
                ours = await self.take_over(doing, mark)
            if not await self.is_under_way(doing.stamp):
                await write(self.connection.tasks, [DeleteMany(unplaced(mark=mark))])
                return
            if not ours:
                break
            joins = [joins_its_lane(doc, mark) for doc in doing.place]
            if (await write(self.connection.tasks, joins)).documents == ours:
                break
            ours = 0
        await self.operator.wakeup.wake(await self.operator.book.accept(doing.place))

    async def is_under_way(self, stamp: str) -> bool:
        """Whether the change of this stamp is not over yet; once over, it is for ever."""
        return await self.stored.find_one({"doing.stamp": stamp}, {"_id": 1}) is not None

    async def insert(self, doing: Doing, mark: str) -> list[Doc]:
        """Insert the ticks that are not there yet, without a lane; returns those."""
        left = [without_a_lane(doc, doing.stamp, mark) for doc in doing.place]
        new: list[Doc] = []
        while left:
            new += await insert_where_free(self.connection, left)
            inserted = {id(doc) for doc in new}
            left = [doc for doc in left if id(doc) not in inserted]
            if not left or not await self.clear([doc["_id"] for doc in left], doing.stamp):
                break
        return new

    async def take_over(self, doing: Doing, mark: str) -> int:
        """Give what others inserted for this change our mark; how many have it then."""
        update = {"$set": {"mulligan.placing.mark": mark}}
        taken = UpdateMany(unplaced(stamp=doing.stamp), update)
        return (await write(self.connection.tasks, [taken])).documents

    async def clear(self, ids: Sequence[str], stamp: str) -> bool:
        """Delete what was inserted under these ids for changes that are over; whether any was.

        While the change of this stamp is under way, every other of its schedule is over.
        """
        query = {"_id": {"$in": list(ids)}, **unplaced(stamp={"$ne": stamp})}
        found = await rows(self.connection.tasks.find(query, {"mulligan.placing": 1}))
        if not found or not await self.is_under_way(stamp):
            return False
        await self.delete_unplaced({doc["mulligan"]["placing"]["stamp"] for doc in found})
        return True

    async def sweep(self) -> None:
        """Delete what processes that died inserted for changes that were over."""
        found = await rows(self.connection.tasks.find(UNPLACED, {"mulligan.placing": 1}))
        stamps = {doc["mulligan"].get("placing", {}).get("stamp") for doc in found}
        over = [stamp for stamp in stamps if not await self.is_under_way(stamp)]
        await self.delete_unplaced(over)

    async def delete_unplaced(self, stamps: Iterable[str]) -> None:
        """Delete what was inserted for the changes of these stamps, and stands in no lane."""
        deletes = [DeleteMany(unplaced(stamp=stamp)) for stamp in stamps]
        if deletes:
            await write(self.connection.tasks, deletes)

    async def withdraw(self, job: str, number: int) -> None:
        """Delete a tick that is pending and has never started, if it is the one of this number."""
        found = (await self.connection.find([job])).get(job)
        if found is None or found["mulligan"].get("number") != number:
            return
        if found["status"] == "pending":
            change, events = cancelled(found, WITHDRAWN, await self.connection.now())
            change.match |= NEVER_STARTED
            if await self.connection.apply([change]):
                await self.operator.book.tell_and_wake(events)
        this = {"mulligan.number": number, "mulligan.cancel_reason": WITHDRAWN}
        await self.connection.tasks.delete_one({"_id": found["_id"], "status": "cancelled", **this})


def unplaced(**placing: Any) -> Doc:
    """Ticks that stand in no lane yet, inserted for the change of this stamp, or with this mark."""
    return UNPLACED | {f"mulligan.placing.{name}": value for name, value in placing.items()}


def without_a_lane(doc: Doc, stamp: str, mark: str) -> Doc:
    """A new document that nobody claims, and of which the book need not know yet."""
    placing = {"stamp": stamp, "mark": mark}
    private = doc["mulligan"] | {"lane": PLACING, "placing": placing}
    private.pop("unbooked", None)
    return doc | {"next_retry_at": NEVER, "mulligan": private}


def joins_its_lane(doc: Doc, mark: str) -> UpdateOne:
    """The write by which an inserted tick can be claimed, if it still has our mark."""
    private = doc["mulligan"]
    fields = {"mulligan.lane": private["lane"], "next_retry_at": doc["next_retry_at"]}
    if "unbooked" in private:
        fields[UNBOOKED] = private["unbooked"]
    this = {"_id": doc["_id"], **unplaced(mark=mark)}
    return UpdateOne(this, {"$set": fields, "$unset": {"mulligan.placing": ""}})


def text_of(record: bytes | None) -> str | None:
    """A record as it is kept."""
    return None if record is None else record.decode()


def doing_of(doc: Doc) -> Doing:
    """The change that is being carried out."""
    return Doing(name=doc["_id"], **doc["doing"])
