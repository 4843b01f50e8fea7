"""What plans are made from, and what is counted by queue and region.

The facts are one document: settings, pauses, regions, breakers. Every claim looks at its epoch,
which grows with every change of plans. Counts are kept by queue and region: one document of sums
since ever, and one for each slot of a few seconds.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace
from pymongo import DeleteMany, UpdateOne

from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings, Region, read_settings
from mulligan.core.health import CLOSED, SLOT, WINDOW, Breaker, Health, changes_plans, first_slot
from mulligan.stores.mongo.bulk_write import write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import Doc, micros, seconds
from mulligan.stores.mongo.wakeup import Wakeup

NOTHING: Doc = {
    "epoch": 0,
    "queues": [],
    "paused": [],
    "regions": [],
    "breakers": [],
}
encode = msgspec.json.encode
QueueRegion = tuple[str, str]
# A field's name may hold neither dots nor dollars.
ESCAPES = str.maketrans({".": "%2E", "$": "%24", "%": "%25"})


class StoredCounts:
    """One document of sums for each queue and region, and one more for each slot."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def add(self, counts: Sequence[Count], now: int) -> None:
        """Add to the sums, in one command."""
        sums: dict[QueueRegion, Doc] = defaultdict(lambda: defaultdict(float))
        for queue, region, name, value in counts:
            sums[queue, region][f"sums.{name.translate(ESCAPES)}"] += value
        statements = [
            each for where in sorted(sums) for each in additions(where, dict(sums[where]), now)
        ]
        if statements:
            await write(self.connection.counts, statements)

    async def recent(self, now: int, named: Iterable[QueueRegion] | None = None) -> list[Doc]:
        """The slots that still matter, of all or of these queues and regions."""
        query: Doc = {"start": {"$gte": now - micros(WINDOW)}}
        if named is not None:
            query["key"] = {"$in": [count_key(where) for where in named]}
        return await rows(self.connection.counts.find(query))

    async def counts(self, now: int) -> Counts:
        """All that was counted."""
        ever = await rows(self.connection.counts.find({"start": None}))
        return Counts(summed(ever), summed(await self.recent(now)))

    async def forget(self, now: int) -> None:
        """Delete the slots that nobody will ask for again."""
        await write(self.connection.counts, [DeleteMany({"start": {"$lt": now - micros(WINDOW)}})])


class StoredFacts:
    """One document; every claim looks at its epoch, which grows with every change of plans."""

    def __init__(self, connection: Connection, wakeup: Wakeup, counts: StoredCounts) -> None:
        self.connection = connection
        self.wakeup = wakeup
        self.counts = counts

    async def begin(self) -> None:
        """Store empty facts, where there are none yet."""
        said = {"$setOnInsert": NOTHING}
        await self.connection.meta.update_one({"_id": "facts"}, said, upsert=True)

    async def facts(self, now: int) -> Facts:
        """What plans are made from."""
        doc, working, slots = await asyncio.gather(
            self.connection.facts_document(), live(self.connection, now), self.counts.recent(now)
        )
        doc = NOTHING | doc
        serves: dict[str, set[str]] = {name: set() for name in sorted(doc["regions"])}
        for worker in working:
            serves.get(worker["region"], set()).update(worker["queues"])
        return Facts(
            epoch=doc["epoch"],
            queues={
                each["queue"]: read_settings(each["queue"], each["settings"])
                for each in doc["queues"]
            },
            regions=tuple(Region(name, frozenset(queues)) for name, queues in serves.items()),
            paused=frozenset(doc["paused"]),
            health=health_by_region(slots, breakers_of(doc), now),
            now=seconds(now),
        )

    async def count(self, counts: Sequence[Count]) -> dict[QueueRegion, Health]:
        """Add to what is counted; returns the health of the queues and regions named."""
        now = await self.connection.now()
        await self.counts.add(counts, now)
        named = {(each.queue, each.region) for each in counts}
        doc, slots = await asyncio.gather(
            self.connection.facts_document(), self.counts.recent(now, named)
        )
        health = health_by_region(slots, breakers_of(doc), now)
        return {where: health[where] for where in named}

    async def add_region(self, region: str) -> None:
        """Note the first worker ever of a region: it changes every plan."""
        reply = await self.connection.meta.update_one(
            {"_id": "facts", "regions": {"$ne": region}},
            {"$addToSet": {"regions": region}, "$inc": {"epoch": 1}},
        )
        if reply.modified_count:
            await self.wakeup.wake_all()

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Store the settings; the epoch grows if they are others than before."""
        text = encode(settings).decode()
        while True:
            doc = await self.connection.facts_document()
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
            doc = await self.connection.facts_document()
            now = set(doc["paused"])
            if (queue in now) == paused:
                return
            listed = sorted(now | {queue} if paused else now - {queue})
            if await self.change(doc, {"paused": listed}):
                return

    async def switch(self, where: QueueRegion, before: Breaker, after: Breaker) -> bool:
        """Replace a breaker that is still as it was; the epoch grows if plans change with it."""
        now = seconds(await self.connection.now())
        turned = before.open != after.open
        while True:
            doc = await self.connection.facts_document()
            breakers = breakers_of(doc)
            if breakers.get(where, CLOSED) != before:
                return False
            breakers[where] = replace(after, since=now if turned else before.since)
            listed = [breaker_document(*each) for each in breakers.items()]
            turns_plans = changes_plans(before, after)
            if await self.change(doc, {"breakers": listed}, turns_plans=turns_plans):
                return True

    async def turn(self) -> None:
        """Begin a new epoch, and wake all."""
        await self.connection.meta.update_one({"_id": "facts"}, {"$inc": {"epoch": 1}})
        await self.wakeup.wake_all()

    async def change(self, read: Doc, fields: Doc, *, turns_plans: bool = True) -> bool:
        """Change facts that are as they were read, and wake all if plans change; False if not.

        A probe changes a breaker and no plan, so the epoch alone does not tell what was read.
        """
        match = {"_id": "facts", "epoch": read["epoch"], "breakers": read["breakers"]}
        reply = await self.connection.meta.update_one(
            match, {"$set": {**fields, "epoch": read["epoch"] + turns_plans}}
        )
        if reply.matched_count and turns_plans:
            await self.wakeup.wake_all()
        return bool(reply.matched_count)


async def live(connection: Connection, now: int) -> list[Doc]:
    """Workers whose lease has not run out."""
    return await rows(
        connection.workers.find({"expires": {"$gt": now}}, {"region": 1, "queues": 1})
    )


def breakers_of(facts: Doc) -> dict[QueueRegion, Breaker]:
    """Every breaker that was ever switched."""
    return {
        (each["queue"], each["region"]): Breaker(
            each["open"], seconds(each["since"]), each["probes"], seconds(each["probed_at"])
        )
        for each in facts["breakers"]
    }


def breaker_document(where: QueueRegion, breaker: Breaker) -> Doc:
    """The breaker as it is stored."""
    return {
        "queue": where[0],
        "region": where[1],
        "open": breaker.open,
        "since": micros(breaker.since),
        "probes": breaker.probes,
        "probed_at": micros(breaker.probed_at),
    }


def additions(where: QueueRegion, added: Doc, now: int) -> list[UpdateOne]:
    """The updates that add to the sums of a queue and region: those since ever, and the slot's."""
    word = count_key(where)
    start = now // micros(SLOT) * micros(SLOT)
    named = {"key": word, "queue": where[0], "region": where[1]}
    return [
        UpdateOne({"_id": word}, {"$inc": added, "$setOnInsert": named}, upsert=True),
        UpdateOne(
            {"_id": f"{word}\x1f{start}"},
            {"$inc": added, "$setOnInsert": named | {"start": start}},
            upsert=True,
        ),
    ]


def count_key(where: QueueRegion) -> str:
    """A queue and region in one word; names have no control characters."""
    return "\x1f".join(where)


def summed(docs: Iterable[Doc]) -> dict[tuple[str, str, str], float]:
    """The sums of these documents by queue, region and name."""
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    for doc in docs:
        for name, value in doc["sums"].items():
            sums[doc["queue"], doc["region"], unquote(name)] += value
    return dict(sums)


def health_by_region(
    slots: Sequence[Doc], breakers: Mapping[QueueRegion, Breaker], now: int
) -> dict[QueueRegion, Health]:
    """How attempts went lately wherever something was counted or a breaker was switched."""
    by_region: dict[QueueRegion, list[Doc]] = {where: [] for where in breakers}
    for slot in slots:
        by_region.setdefault((slot["queue"], slot["region"]), []).append(slot)
    return {
        where: health_of(each, breakers.get(where, CLOSED), now)
        for where, each in by_region.items()
    }


def health_of(slots: Sequence[Doc], breaker: Breaker, now: int) -> Health:
    """How attempts went in these slots, as far as they say something about now."""
    first = first_slot(seconds(now), breaker)
    sums = [slot["sums"] for slot in slots if seconds(slot["start"]) >= first]
    return Health(
        int(sum(each.get("succeeded", 0) for each in sums)),
        int(sum(each.get("failed", 0) for each in sums)),
        breaker,
    )
