"""What plans are made from: settings, pauses, regions, breakers; and the epoch of all that."""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from mulligan.core.counts import Count
from mulligan.core.facts import Facts, QueueSettings, Region, read_settings
from mulligan.core.health import CLOSED, Breaker, Health, changes_plans
from mulligan.stores.mongo.base import Base, Doc, rows
from mulligan.stores.mongo.bells import Bells
from mulligan.stores.mongo.counting import Counting, Place, health_by_place
from mulligan.stores.mongo.times import micros, seconds

NOTHING: Doc = {
    "epoch": 0,
    "queues": [],
    "paused": [],
    "regions": [],
    "breakers": [],
}

encode = msgspec.json.encode


class Known:
    """One document; every claim looks at its epoch, which grows with every change of plans."""

    def __init__(self, base: Base, bells: Bells, counting: Counting) -> None:
        self.base = base
        self.bells = bells
        self.counting = counting

    async def begin(self) -> None:
        """Know nothing, where nothing is known yet."""
        said = {"$setOnInsert": NOTHING}
        await self.base.meta.update_one({"_id": "facts"}, said, upsert=True)

    async def facts(self, now: int) -> Facts:
        """What plans are made from."""
        doc, working, slots = await asyncio.gather(
            self.base.facts_document(), live(self.base, now), self.counting.recent(now)
        )
        doc = NOTHING | doc
        return Facts(
            doc["epoch"],
            {
                each["queue"]: read_settings(each["queue"], each["settings"])
                for each in doc["queues"]
            },
            tuple(
                Region(
                    name, frozenset(q for w in working if w["region"] == name for q in w["queues"])
                )
                for name in sorted(doc["regions"])
            ),
            frozenset(doc["paused"]),
            health_by_place(slots, breakers_of(doc), now),
            seconds(now),
        )

    async def count(self, counts: Sequence[Count]) -> dict[Place, Health]:
        """Add to what is counted, and say how the queues and regions named are now."""
        now = await self.base.now()
        await self.counting.add(counts, now)
        places = {(each.queue, each.region) for each in counts}
        doc, slots = await asyncio.gather(
            self.base.facts_document(), self.counting.recent(now, places)
        )
        health = health_by_place(slots, breakers_of(doc), now)
        return {place: health[place] for place in places}

    async def settle(self, region: str) -> None:
        """The first worker ever of a region changes every plan."""
        reply = await self.base.meta.update_one(
            {"_id": "facts", "regions": {"$ne": region}},
            {"$addToSet": {"regions": region}, "$inc": {"epoch": 1}},
        )
        if reply.modified_count:
            await self.bells.ring_all()

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Store the settings; the epoch grows if they are others than before."""
        text = encode(settings).decode()
        while True:
            doc = await self.base.facts_document()
            queues = {each["queue"]: each["settings"] for each in doc["queues"]}
            if queues.get(queue) == text:
                return
            queues[queue] = text
            listed = [{"queue": name, "settings": each} for name, each in queues.items()]
            if await self.change(doc, {"queues": listed}):
                return

    async def pause(self, queue: str, *, paused: bool) -> None:
        """Store the pause; the epoch grows if it is news."""
        while True:
            doc = await self.base.facts_document()
            now = set(doc["paused"])
            if (queue in now) == paused:
                return
            listed = sorted(now | {queue} if paused else now - {queue})
            if await self.change(doc, {"paused": listed}):
                return

    async def switch(self, place: Place, before: Breaker, after: Breaker) -> bool:
        """Replace a breaker that is still as it was; the epoch grows if plans change with it."""
        now = seconds(await self.base.now())
        turned = before.open != after.open
        while True:
            doc = await self.base.facts_document()
            breakers = breakers_of(doc)
            if breakers.get(place, CLOSED) != before:
                return False
            breakers[place] = replace(after, since=now if turned else before.since)
            listed = [breaker_document(*each) for each in breakers.items()]
            turns_plans = changes_plans(before, after)
            if await self.change(doc, {"breakers": listed}, turns_plans=turns_plans):
                return True

    async def change(self, read: Doc, fields: Doc, *, turns_plans: bool = True) -> bool:
        """Change facts that were read so, and wake all if plans turn; False if others were first.

        A probe changes a breaker and no plan, so the epoch alone does not tell what was read.
        """
        match = {"_id": "facts", "epoch": read["epoch"], "breakers": read["breakers"]}
        reply = await self.base.meta.update_one(
            match, {"$set": {**fields, "epoch": read["epoch"] + turns_plans}}
        )
        if reply.matched_count and turns_plans:
            await self.bells.ring_all()
        return bool(reply.matched_count)


async def live(base: Base, now: int) -> list[Doc]:
    """Workers whose lease has not run out."""
    return await rows(base.workers.find({"expires": {"$gt": now}}, {"region": 1, "queues": 1}))


def breakers_of(facts: Doc) -> dict[Place, Breaker]:
    """Every breaker that was ever switched."""
    return {
        (each["queue"], each["region"]): Breaker(
            each["open"], seconds(each["since"]), each["probes"], seconds(each["probed_at"])
        )
        for each in facts["breakers"]
    }


def breaker_document(place: Place, breaker: Breaker) -> Doc:
    """The breaker as it is stored."""
    return {
        "queue": place[0],
        "region": place[1],
        "open": breaker.open,
        "since": micros(breaker.since),
        "probes": breaker.probes,
        "probed_at": micros(breaker.probed_at),
    }
