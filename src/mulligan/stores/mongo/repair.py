"""Repair: finish what a crash left half done, end what expired, delete what is old."""

from pymongo import UpdateMany

from mulligan.core.job import EXPIRED
from mulligan.stores.mongo import inbox, limits, outbox
from mulligan.stores.mongo.arrivals import left_owing
from mulligan.stores.mongo.book import IN_USE, UNTOLD
from mulligan.stores.mongo.bulk_write import write
from mulligan.stores.mongo.connection import BOOK, Collection, rows
from mulligan.stores.mongo.dead_letters import move_dead, return_letter
from mulligan.stores.mongo.document import (
    ARRIVAL,
    NEVER_STARTED,
    REMOVAL,
    SECOND,
    TO_WRITE,
    Doc,
    date,
    ended_of,
    micros,
    private_of,
    seconds,
)
from mulligan.stores.mongo.events import UNBOOKED
from mulligan.stores.mongo.facts import StoredCounts
from mulligan.stores.mongo.operate import Operator, forget_notes
from mulligan.stores.mongo.schedules import UNFINISHED, UNPLACED, Schedules
from mulligan.stores.mongo.validate import invalid_reason
from mulligan.stores.mongo.wakeup import News
from mulligan.stores.mongo.workers import forget_dead

SWEEP_EVERY = SECOND
DATES_EVERY = TIDY_EVERY = 60 * SECOND
LOOK_EVERY = 600 * SECOND
# Each comes with its result.
SETTLED_AT_ONCE = 100
ENDED = ["done", "cancelled", "failed"]

OWING = {
    "$or": [
        {"mulligan.owes": {"$gt": ""}, "status": {"$in": ["done", "cancelled"]}},
        {"mulligan.owes": ARRIVAL, "status": "failed"},
    ]
}


class Repair:
    """What `promote` and `prune` do."""

    def __init__(self, operator: Operator, counts: StoredCounts, schedules: Schedules) -> None:
        self.connection = operator.connection
        self.wakeup = operator.wakeup
        self.book = operator.book
        self.gatherer = operator.gatherer
        self.operator = operator
        self.counts = counts
        self.schedules = schedules
        self._swept = self._dated = self._tidied = self._looked = self._looked_through = 0

    async def promote(self, limit: int) -> int:
        """End what expired; also take in, deliver, settle, sweep and move what is left over."""
        now = await self.connection.now()
        left = await self.left_over(now)
        if "stray" in left:
            await self.wakeup.take_in_strays()
        if "odd" in left:
            await self.wakeup.take_in(
                await rows(self.connection.tasks.find(self.odd(now)).limit(limit))
            )
        if "undelivered" in left:
            query = self.connection.tasks.find(outbox.UNDELIVERED, {"mulligan.outbox": 1})
            found = await rows(query.limit(limit))
            await outbox.set_broken_aside(self.connection, found)
            await self.operator.deliver_left(found)
        if "owing" in left:
            await self.settle_left()
        await self.book.repair(left, now)
        if "rescheduled" in left:
            await self.schedules.finish_left()
        if "to sweep" in left and is_due(now, self._swept, SWEEP_EVERY):
            self._swept = now
            await self.sweep(now)
        if is_due(now, self._dated, DATES_EVERY):
            self._dated = now
            await self.take_dates(now, limit)
        if self.connection.url.move_dead:
            await self.finish_moves(limit)
        return await self.expire(now, limit) if "expired" in left else 0

    async def left_over(self, now: int) -> set[str]:
        """Which kinds of repair there is work for, by one command: mostly none."""
        tasks = self.connection.tasks
        signs: list[tuple[str, Collection, Doc]] = [
            ("stray", tasks, inbox.strays(self.connection.default_task) | inbox.due(now)),
            ("stray", tasks, inbox.put_back(now)),
            ("odd", tasks, self.odd(now)),
            ("undelivered", tasks, outbox.UNDELIVERED),
            *[("owing", collection, OWING) for collection in self.connection.collections],
            ("rescheduled", self.connection.schedules, UNFINISHED),
            ("rescheduled", tasks, UNPLACED),
            *[("unbooked", each, UNTOLD) for each in self.connection.collections],
            ("unfinished", self.connection.meta, {"_id": BOOK, "redo": {"$exists": True}}),
            ("to sweep", self.connection.lines, IN_USE),
            ("to sweep", self.connection.limits, limits.IN_USE),
            ("to sweep", self.connection.outbox, {}),
            ("expired", tasks, expired(now)),
        ]
        looks: list[Doc] = [
            {"$unionWith": {"coll": collection.name, "pipeline": first_of(query, sign)}}
            for sign, collection, query in signs
        ]
        cursor = await self.connection.meta.aggregate([{"$match": {"_id": None}}, *looks])
        return {doc["sign"] for doc in await cursor.to_list()}

    def odd(self, now: int) -> Doc:
        """Documents of other programs that no claim finds, to be set aside once they are due."""
        return inbox.odd_strays(self.connection.default_task) | inbox.due(now)

    async def expire(self, now: int, limit: int) -> int:
        """End pending jobs that did not start in time, in the order that the contract says."""
        found = self.connection.tasks.find(expired(now), {"mulligan.expires_at": 1})
        first = await rows(
            found.sort({"mulligan.expires_at": 1, "mulligan.number": 1}).limit(limit)
        )
        # The server looks into lists as well, which are none of ours.
        late = [doc for doc in first if isinstance(private_of(doc).get("expires_at"), int)]
        return sum(await self.operator.cancel([str(doc["_id"]) for doc in late], EXPIRED))

    async def settle_left(self) -> None:
        """Tell gathering jobs of members that ended before they could, or by another program.

        And finish purges that were begun. What another program has broken is told to nobody, and
        forgotten: it would be found again and again, before others.
        """
        for collection in self.connection.collections:
            found = await rows(collection.find(OWING).limit(SETTLED_AT_ONCE))
            await self.gatherer.settle_and_tell(each for doc in found for each in left_owing(doc))
            purged = [doc for doc in found if private_of(doc).get("owes") == REMOVAL]
            if purged:
                await self.gatherer.remove(purged)
            broken = [doc["_id"] for doc in found if doc not in purged and not left_owing(doc)]
            if broken:
                query = {"_id": {"$in": broken}, "status": {"$in": ENDED}}
                await write(collection, [UpdateMany(query, {"$unset": {"mulligan.owes": ""}})])

    async def sweep(self, now: int) -> None:
        """Free permits whose claim died."""
        await outbox.sweep(self.connection)
        freed = await limits.sweep(self.connection, now)
        await self.wakeup.wake([News(limit=key) for key in sorted(freed)])
        await self.book.free_left()

    async def take_dates(self, now: int, limit: int) -> None:
        """Obey `next_retry_at` where another program moved it forward.

        What was put into its lane without delay has none, and may fall due later than now by the
        clock of whoever put it there.
        """
        query = {
            "status": "pending",
            "mulligan.due": {"$gt": now + 1000},
            "mulligan.delayed": True,
            "$or": [{"next_retry_at": None}, {"next_retry_at": {"$lte": date(now)}}],
        }
        await self.wakeup.take_in(await rows(self.connection.tasks.find(query).limit(limit)))

    async def finish_moves(self, limit: int) -> None:
        """Finish moves of dead letters that stopped half way, in both directions."""
        failed = await rows(
            self.connection.tasks.find({"status": "failed"}, {"_id": 1}).limit(limit)
        )
        await move_dead(self.connection, [doc["_id"] for doc in failed])
        replayed = {"status": "pending", **inbox.TAKEN_IN}
        letters = self.connection.dlq.with_options(TO_WRITE).find(replayed)
        for letter in await rows(letters.limit(limit)):
            if invalid_reason(letter) is None:
                await return_letter(self.connection, letter)

    async def prune(self, keep_done: float, limit: int) -> int:
        """Delete done and cancelled jobs that are old enough and owe nothing to others."""
        now = await self.connection.now()
        if is_due(now, self._tidied, TIDY_EVERY):
            self._tidied = now
            await self.counts.forget(now)
            await forget_notes(self.connection, now)
            await forget_dead(self.connection, now)
            await self.book.ledger.tidy()
        await self.book.prune()
        kept = await self.over({"mulligan.keep_until": {"$lt": now}}, limit)
        before = micros(seconds(now) - keep_done)
        since = await self.looked_through(now, before)
        dates = {"$gte": date(since), "$lte": date(before)}
        query = {"updated_at": dates, "mulligan.keep_until": None}
        found = await self.over(query, limit - len(kept)) if len(kept) < limit else []
        if len(kept) + len(found) < limit:
            self._looked_through = before
        old = kept + [doc for doc in found if (ended_of(doc) or 0) < before]
        return await self.gatherer.remove(old) if old else 0

    async def over(self, query: Doc, limit: int) -> list[Doc]:
        """Done and cancelled jobs that match and owe nothing to others."""
        query = {
            "status": {"$in": ["done", "cancelled"]},
            **query,
            "mulligan.outbox": None,
            "mulligan.owes": None,
            f"{UNBOOKED}.id": {"$exists": False},
            # What mulligan neither enqueued nor ran is not its to delete.
            **inbox.TAKEN_IN,
        }
        fields = {"status": 1, "updated_at": 1}
        fields |= {
            f"mulligan.{name}": 1 for name in ("ended_at", "awaits", "number", "records.upto")
        }
        return await rows(self.connection.tasks.find(query, fields).limit(limit))

    async def looked_through(self, now: int, before: int) -> int:
        """Since when jobs are to be looked at: those that say how long they are kept lie before.

        However many these are, they are passed over once. From time to time all are looked at, as
        they always are where no job says it.
        """
        if before < self._looked_through or is_due(now, self._looked, LOOK_EVERY):
            self._looked, self._looked_through = now, 0
        if self._looked_through:
            anyone = {"mulligan.keep_until": {"$gte": 0}}
            if await self.connection.tasks.find_one(anyone, {"_id": 1}) is None:
                self._looked_through = 0
        return self._looked_through


def is_due(now: int, last: int, every: int) -> bool:
    """Whether something was last done long enough ago; a clock may have been set back."""
    return now - last >= every or now < last


def first_of(query: Doc, sign: str) -> list[Doc]:
    """A query that gives the sign if a document matches."""
    return [
        {"$match": query},
        {"$limit": 1},
        {"$project": {"_id": 0, "sign": {"$literal": sign}}},
    ]


def expired(now: int) -> Doc:
    """Jobs that should have started by now, and have not."""
    return {"mulligan.expires_at": {"$lte": now}, "status": "pending", **NEVER_STARTED}
