"""Upkeep: finishing what a crash left half done, ending what expired, forgetting what is old."""

from typing import Any

from mulligan.core.job import EXPIRED
from mulligan.stores.mongo import foreign, gates
from mulligan.stores.mongo.base import Base, Doc, rows
from mulligan.stores.mongo.bells import Bells, News
from mulligan.stores.mongo.committing import deliver
from mulligan.stores.mongo.dead import move_dead, return_letter
from mulligan.stores.mongo.documents import ended_of
from mulligan.stores.mongo.keys import Keys
from mulligan.stores.mongo.operating import Operating
from mulligan.stores.mongo.times import SECOND, date, micros, seconds

SWEEP_EVERY = SECOND
DATES_EVERY = 60 * SECOND


class Upkeep:
    """What promote and prune do."""

    def __init__(self, base: Base, bells: Bells, keys: Keys, operating: Operating) -> None:
        self.base = base
        self.bells = bells
        self.keys = keys
        self.operating = operating
        self._swept = self._dated = 0

    async def promote(self, limit: int) -> int:
        """End what expired; also take in, deliver, sweep and move what was left lying."""
        now = await self.base.now()
        # What another program popped leaves its lane, so that its return is seen.
        popped = {"status": "processing", "mulligan.line": {"$gt": ""}}
        await self.base.tasks.update_many(popped, {"$unset": {"mulligan.line": ""}})
        await self.bells.take_in_strays()
        await self.deliver_left(limit)
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
        query = {"mulligan.expires": {"$lte": now}, "status": "pending", "mulligan.token": 0}
        late = await rows(self.base.tasks.find(query, {"_id": 1}).limit(limit))
        return sum(await self.operating.cancel([str(doc["_id"]) for doc in late], EXPIRED))

    async def deliver_left(self, limit: int) -> None:
        """Deliver what a commit left in its document."""
        query = {"mulligan.outbox.stamp": {"$gt": ""}}
        found = self.base.tasks.find(query, {"mulligan.outbox": 1}).limit(limit)
        boxes: list[tuple[Any, list[Doc]]] = [
            (doc["_id"], doc["mulligan"]["outbox"]["jobs"]) for doc in await rows(found)
        ]
        created = await deliver(self.base, boxes)
        await self.bells.ring(
            [
                News(doc["mulligan"]["line"], doc["mulligan"]["due"])
                for _, docs in boxes
                for doc in docs
                if doc["_id"] in created
            ]
        )

    async def sweep(self, now: int) -> None:
        """Free permits that died with their claim, and let go of jobs that nobody let go of."""
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
        found = await rows(self.base.tasks.find(query).limit(limit))
        joined = await foreign.take_in(self.base, found, now)
        await self.bells.ring([News(line, due) for line, due in joined])

    async def finish_moves(self, limit: int) -> None:
        """Finish moves of dead letters that stopped half way, in both directions."""
        failed = await rows(self.base.tasks.find({"status": "failed"}, {"_id": 1}).limit(limit))
        await move_dead(self.base, [doc["_id"] for doc in failed])
        for letter in await rows(self.base.dlq.find({"status": "pending"}).limit(limit)):
            await return_letter(self.base, letter)

    async def prune(self, keep_done: float, limit: int) -> int:
        """Delete done and cancelled jobs that are old enough and have delivered what is next."""
        before = micros(seconds(await self.base.now()) - keep_done)
        statuses = {"$in": ["done", "cancelled"]}
        query = {
            "status": statuses,
            "updated_at": {"$lte": date(before)},
            "mulligan.outbox": None,
        }
        fields = {"status": 1, "updated_at": 1, "mulligan.ended": 1}
        found = await rows(self.base.tasks.find(query, fields).limit(limit))
        old = [doc["_id"] for doc in found if (ended_of({"mulligan": {}} | doc) or 0) < before]
        if not old:
            return 0
        reply = await self.base.tasks.delete_many({"_id": {"$in": old}, "status": statuses})
        return reply.deleted_count
