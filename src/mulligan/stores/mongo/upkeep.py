"""Upkeep: finishing what a crash left half done, ending what expired, forgetting what is old."""

from mulligan.core.job import EXPIRED
from mulligan.stores.mongo import inbox, limits, notes, outbox
from mulligan.stores.mongo.base import Collection, Doc, rows
from mulligan.stores.mongo.bells import News
from mulligan.stores.mongo.codec import TO_WRITE
from mulligan.stores.mongo.counting import Counting
from mulligan.stores.mongo.dead import move_dead, return_letter
from mulligan.stores.mongo.documents import HELD, NEVER_STARTED, REMOVAL, private_of
from mulligan.stores.mongo.gathering import left_owing
from mulligan.stores.mongo.operating import Operating
from mulligan.stores.mongo.soundness import damage_in
from mulligan.stores.mongo.times import SECOND, date, micros, seconds
from mulligan.stores.mongo.views import ended_of
from mulligan.stores.mongo.workers import forget_dead

SWEEP_EVERY = SECOND
DATES_EVERY = TIDY_EVERY = 60 * SECOND
# Each comes with its result.
SETTLED_AT_ONCE = 100

UNDELIVERED = {"mulligan.outbox.stamp": {"$gt": ""}}
OWING = {"mulligan.owes": {"$gt": ""}, "status": {"$in": ["done", "cancelled"]}}
SET_ASIDE = {"status": "pending", "mulligan.line": HELD}


class Upkeep:
    """What promote and prune do."""

    def __init__(self, operating: Operating, counting: Counting) -> None:
        self.base = operating.base
        self.bells = operating.bells
        self.keys = operating.keys
        self.gathering = operating.gathering
        self.operating = operating
        self.counting = counting
        self._swept = self._dated = self._tidied = 0

    async def promote(self, limit: int) -> int:
        """End what expired; also take in, deliver, settle, sweep and move what was left lying."""
        now = await self.base.now()
        lies = await self.left_lying(now)
        if "stray" in lies:
            await self.bells.take_in_strays()
        if "odd" in lies:
            await self.bells.take_in(await rows(self.base.tasks.find(self.odd(now)).limit(limit)))
        if "undelivered" in lies:
            left = self.base.tasks.find(UNDELIVERED, {"mulligan.outbox": 1})
            await self.operating.deliver_left(await rows(left.limit(limit)))
        if "owing" in lies:
            await self.settle_left()
        if "to sweep" in lies and is_time(now, self._swept, SWEEP_EVERY):
            self._swept = now
            await self.sweep(now)
        if is_time(now, self._dated, DATES_EVERY):
            self._dated = now
            await self.take_dates(now, limit)
        if self.base.address.move_dead:
            await self.finish_moves(limit)
        return await self.expire(now, limit) if "expired" in lies else 0

    async def left_lying(self, now: int) -> set[str]:
        """What kinds of things there are to do, in one command: most often there is nothing."""
        tasks = self.base.tasks
        signs: list[tuple[str, Collection, Doc]] = [
            ("stray", tasks, inbox.strays(self.base.default_task) | inbox.due(now)),
            ("stray", tasks, inbox.put_back(now)),
            ("odd", tasks, self.odd(now)),
            ("undelivered", tasks, UNDELIVERED),
            *[("owing", place, OWING) for place in self.base.places],
            ("to sweep", tasks, SET_ASIDE),
            ("to sweep", self.base.limits, limits.HELD),
            ("to sweep", self.base.outbox, {}),
            ("expired", tasks, expired(now)),
        ]
        looks: list[Doc] = [
            {"$unionWith": {"coll": place.name, "pipeline": first_of(query, sign)}}
            for sign, place, query in signs
        ]
        cursor = await self.base.meta.aggregate([{"$match": {"_id": None}}, *looks])
        return {doc["sign"] for doc in await cursor.to_list()}

    def odd(self, now: int) -> Doc:
        """Documents of other programs that no claim finds, to be set aside once they are due."""
        return inbox.odd_strays(self.base.default_task) | inbox.due(now)

    async def expire(self, now: int, limit: int) -> int:
        """End pending jobs that did not start in time, in the order that the contract says."""
        found = self.base.tasks.find(expired(now), {"mulligan.expires": 1})
        first = await rows(found.sort({"mulligan.expires": 1, "mulligan.place": 1}).limit(limit))
        # The server looks into lists as well, which are none of ours.
        late = [doc for doc in first if isinstance(private_of(doc).get("expires"), int)]
        return sum(await self.operating.cancel([str(doc["_id"]) for doc in late], EXPIRED))

    async def settle_left(self) -> None:
        """Tell gathering jobs of members that ended untold, or by the hand of another program.

        And finish purges that were begun.
        """
        for place in self.base.places:
            found = await rows(place.find(OWING).limit(SETTLED_AT_ONCE))
            await self.gathering.settle(each for doc in found for each in left_owing(doc))
            purged = [doc for doc in found if private_of(doc).get("owes") == REMOVAL]
            if purged:
                await self.gathering.remove(purged)

    async def sweep(self, now: int) -> None:
        """Free permits that died with their claim, and let go of jobs that nobody let go of."""
        await outbox.sweep(self.base)
        freed = await limits.sweep(self.base, now)
        await self.bells.ring([News(gate=key) for key in sorted(freed)])
        held = self.base.tasks.find(SET_ASIDE, {"mulligan.key": 1}).limit(1000)
        keys = [private_of(doc).get("key") for doc in await rows(held)]
        for key in sorted({key for key in keys if isinstance(key, str)}):
            await self.keys.let_go_if_stuck(key)

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
        await self.bells.take_in(await rows(self.base.tasks.find(query).limit(limit)))

    async def finish_moves(self, limit: int) -> None:
        """Finish moves of dead letters that stopped half way, in both directions."""
        failed = await rows(self.base.tasks.find({"status": "failed"}, {"_id": 1}).limit(limit))
        await move_dead(self.base, [doc["_id"] for doc in failed])
        replayed = {"status": "pending", **inbox.TAKEN_IN}
        letters = self.base.dlq.with_options(TO_WRITE).find(replayed)
        for letter in await rows(letters.limit(limit)):
            if damage_in(letter) is None:
                await return_letter(self.base, letter)

    async def prune(self, keep_done: float, limit: int) -> int:
        """Delete done and cancelled jobs that are old enough and owe nothing to others."""
        now = await self.base.now()
        if is_time(now, self._tidied, TIDY_EVERY):
            self._tidied = now
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
            # What mulligan neither enqueued nor ran is not its to delete.
            **inbox.TAKEN_IN,
        }
        fields = {"status": 1, "updated_at": 1}
        fields |= {f"mulligan.{name}": 1 for name in ("ended", "awaits", "place")}
        found = await rows(self.base.tasks.find(query, fields).limit(limit))
        old = [doc for doc in found if (ended_of(doc) or 0) < before]
        return await self.gathering.remove(old) if old else 0


def is_time(now: int, last: int, every: int) -> bool:
    """Whether something was last done long enough ago; a clock may have been set back."""
    return now - last >= every or now < last


def first_of(query: Doc, sign: str) -> list[Doc]:
    """The sign, if there is anything to which the query applies."""
    return [
        {"$match": query},
        {"$limit": 1},
        {"$project": {"_id": 0, "sign": {"$literal": sign}}},
    ]


def expired(now: int) -> Doc:
    """Jobs that should have started by now, and have not."""
    return {"mulligan.expires": {"$lte": now}, "status": "pending", **NEVER_STARTED}
