"""Upkeep: finishing what a crash left half done, ending what expired, forgetting what is old."""

from pymongo import UpdateMany

from mulligan.core.job import EXPIRED
from mulligan.stores.mongo import gates, notes, outbox
from mulligan.stores.mongo.base import rows
from mulligan.stores.mongo.bells import News
from mulligan.stores.mongo.colliding import write
from mulligan.stores.mongo.counting import Counting
from mulligan.stores.mongo.dead import move_dead, return_letter
from mulligan.stores.mongo.documents import NEVER_STARTED, REMOVAL
from mulligan.stores.mongo.gathering import left_owing
from mulligan.stores.mongo.operating import Operating
from mulligan.stores.mongo.times import SECOND, date, micros, seconds
from mulligan.stores.mongo.views import ended_of
from mulligan.stores.mongo.workers import forget_dead

SWEEP_EVERY = SECOND
DATES_EVERY = 60 * SECOND
# Each comes with its result.
SETTLED_AT_ONCE = 100


class Upkeep:
    """What promote and prune do."""

    def __init__(self, operating: Operating, counting: Counting) -> None:
        self.base = operating.base
        self.bells = operating.bells
        self.keys = operating.keys
        self.gathering = operating.gathering
        self.operating = operating
        self.counting = counting
        self._swept = self._dated = 0

    async def promote(self, limit: int) -> int:
        """End what expired; also take in, deliver, settle, sweep and move what was left lying."""
        now = await self.base.now()
        # What another program popped leaves its lane, so that its return is seen.
        popped = {"status": "processing", "mulligan.line": {"$gt": ""}}
        await write(self.base.tasks, [UpdateMany(popped, {"$unset": {"mulligan.line": ""}})])
        await self.bells.take_in_strays()
        left = self.base.tasks.find({"mulligan.outbox.stamp": {"$gt": ""}}, {"mulligan.outbox": 1})
        await self.operating.deliver_left(await rows(left.limit(limit)))
        await self.settle_left()
        if now - self._swept >= SWEEP_EVERY or now < self._swept:
            self._swept = now
            await self.sweep(now)
        if now - self._dated >= DATES_EVERY or now < self._dated:
            self._dated = now
            await self.take_dates(now, limit)
        if self.base.address.move_dead:
            await self.finish_moves(limit)
        return await self.expire(now, limit)

    async def expire(self, now: int, limit: int) -> int:
        """End pending jobs that did not start in time."""
        query = {"mulligan.expires": {"$lte": now}, "status": "pending", **NEVER_STARTED}
        fields = {"mulligan.expires": 1, "mulligan.place": 1}
        late = await rows(self.base.tasks.find(query, fields).limit(limit))
        late.sort(key=lambda doc: (doc["mulligan"]["expires"], doc["mulligan"]["place"]))
        return sum(await self.operating.cancel([str(doc["_id"]) for doc in late], EXPIRED))

    async def settle_left(self) -> None:
        """Tell gathering jobs of members that ended untold, or by the hand of another program.

        And finish purges that were begun.
        """
        query = {"mulligan.owes": {"$gt": ""}, "status": {"$in": ["done", "cancelled"]}}
        for place in self.base.places:
            found = await rows(place.find(query).limit(SETTLED_AT_ONCE))
            await self.gathering.settle(each for doc in found for each in left_owing(doc))
            purged = [doc for doc in found if doc["mulligan"]["owes"] == REMOVAL]
            if purged:
                await self.gathering.remove(purged)

    async def sweep(self, now: int) -> None:
        """Free permits that died with their claim, and let go of jobs that nobody let go of."""
        await outbox.sweep(self.base)
        freed = await gates.sweep(self.base, now)
        await self.bells.ring([News(gate=key) for key in sorted(freed)])
        held = self.base.tasks.find(
            {"status": "pending", "mulligan.line": ""}, {"mulligan.key": 1}
        ).limit(1000)
        for key in sorted({doc["mulligan"]["key"] for doc in await rows(held)}):
            await self.keys.let_go_if_stuck(key)

    async def take_dates(self, now: int, limit: int) -> None:
        """Obey `next_retry_at` where another program moved it forward."""
        query = {
            "status": "pending",
            "mulligan.due": {"$gt": now + 1000},
            "$or": [{"next_retry_at": None}, {"next_retry_at": {"$lte": date(now)}}],
        }
        await self.bells.take_in(await rows(self.base.tasks.find(query).limit(limit)))

    async def finish_moves(self, limit: int) -> None:
        """Finish moves of dead letters that stopped half way, in both directions."""
        failed = await rows(self.base.tasks.find({"status": "failed"}, {"_id": 1}).limit(limit))
        await move_dead(self.base, [doc["_id"] for doc in failed])
        for letter in await rows(self.base.dlq.find({"status": "pending"}).limit(limit)):
            await return_letter(self.base, letter)

    async def prune(self, keep_done: float, limit: int) -> int:
        """Delete done and cancelled jobs that are old enough and owe nothing to others."""
        now = await self.base.now()
        await self.counting.forget(now)
        await notes.forget(self.base, now)
        await forget_dead(self.base, now)
        before = micros(seconds(now) - keep_done)
        statuses = {"$in": ["done", "cancelled"]}
        query = {
            "status": statuses,
            "updated_at": {"$lte": date(before)},
            "mulligan.outbox": None,
            "mulligan.owes": None,
        }
        fields = {"status": 1, "updated_at": 1}
        fields |= {f"mulligan.{name}": 1 for name in ("ended", "awaits", "place")}
        found = await rows(self.base.tasks.find(query, fields).limit(limit))
        old = [doc for doc in found if (ended_of({"mulligan": {}} | doc) or 0) < before]
        return await self.gathering.remove(old) if old else 0
