"""Schedules: a record each, and the ticks that are placed and withdrawn with it.

A change is written into the schedule's document as a whole, then carried out, then finished: from
the first write on it holds, and whoever comes upon it carries it out. All that it does is fixed in
it, so that doing it twice is the same as once.
"""

from typing import Any

from msgspec import Struct
from pymongo.errors import DuplicateKeyError

from mulligan.core.reschedule import WITHDRAWN, Reschedule
from mulligan.core.settings import check_batch
from mulligan.stores.mongo.bulk_write import new_stamp
from mulligan.stores.mongo.connection import rows
from mulligan.stores.mongo.document import NEVER_STARTED, TO_WRITE, Doc
from mulligan.stores.mongo.enqueue import insert_where_free
from mulligan.stores.mongo.facts import StoredFacts
from mulligan.stores.mongo.fields import new_document
from mulligan.stores.mongo.gather import cancelled
from mulligan.stores.mongo.operate import Operator
from mulligan.stores.mongo.wakeup import news_of

UNFINISHED = {"doing.stamp": {"$gt": ""}}


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

    async def finish(self, doing: Doing) -> None:
        """Carry the change out, as far as it is not."""
        this = {"_id": doing.name, "doing.stamp": doing.stamp}
        for job, number in doing.withdraw:
            await self.withdraw(job, number)
        if doing.place and await self.stored.find_one(this, {"_id": 1}) is not None:
            new = await insert_where_free(self.connection, doing.place)
            await self.operator.wakeup.wake(await self.operator.book.accept(new))
        if doing.edit:
            await self.facts.turn()
        if doing.record is None:
            await self.stored.delete_one(this)
        else:
            done = {"$set": {"record": doing.record}, "$unset": {"doing": ""}}
            await self.stored.update_one(this, done)

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


def text_of(record: bytes | None) -> str | None:
    """A record as it is kept."""
    return None if record is None else record.decode()


def doing_of(doc: Doc) -> Doing:
    """The change that is being carried out."""
    return Doing(name=doc["_id"], **doc["doing"])
