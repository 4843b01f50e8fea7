"""What is counted by queue and region: sums since ever, and in slots of a few seconds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

from pymongo import DeleteMany, UpdateOne

from mulligan.core.counts import Count, Counts
from mulligan.core.health import CLOSED, SLOT, WINDOW, Breaker, Health, first_slot
from mulligan.stores.mongo.base import Base, Doc, rows
from mulligan.stores.mongo.colliding import write
from mulligan.stores.mongo.times import micros, seconds

Place = tuple[str, str]
# A field's name may hold neither dots nor dollars.
ESCAPES = str.maketrans({".": "%2E", "$": "%24", "%": "%25"})


class Counting:
    """One document of sums for each queue and region, and one more for each slot."""

    def __init__(self, base: Base) -> None:
        self.base = base

    async def add(self, counts: Sequence[Count], now: int) -> None:
        """Add to the sums, in one command."""
        sums: dict[Place, Doc] = defaultdict(lambda: defaultdict(float))
        for queue, region, name, value in counts:
            sums[queue, region][f"sums.{name.translate(ESCAPES)}"] += value
        statements = [
            each for place in sorted(sums) for each in additions(place, dict(sums[place]), now)
        ]
        if statements:
            await write(self.base.counts, statements)

    async def recent(self, now: int, places: Iterable[Place] | None = None) -> list[Doc]:
        """The slots that still matter, of all or of these queues and regions."""
        query: Doc = {"start": {"$gte": now - micros(WINDOW)}}
        if places is not None:
            query["place"] = {"$in": [place_word(place) for place in places]}
        return await rows(self.base.counts.find(query))

    async def counts(self, now: int) -> Counts:
        """All that was counted."""
        ever = await rows(self.base.counts.find({"start": None}))
        return Counts(summed(ever), summed(await self.recent(now)))

    async def forget(self, now: int) -> None:
        """Delete the slots that nobody will ask for again."""
        await write(self.base.counts, [DeleteMany({"start": {"$lt": now - micros(WINDOW)}})])


def additions(place: Place, added: Doc, now: int) -> list[UpdateOne]:
    """The updates that add to the sums of a queue and region: those since ever, and the slot's."""
    word = place_word(place)
    start = now // micros(SLOT) * micros(SLOT)
    known = {"place": word, "queue": place[0], "region": place[1]}
    return [
        UpdateOne({"_id": word}, {"$inc": added, "$setOnInsert": known}, upsert=True),
        UpdateOne(
            {"_id": f"{word}\x1f{start}"},
            {"$inc": added, "$setOnInsert": known | {"start": start}},
            upsert=True,
        ),
    ]


def place_word(place: Place) -> str:
    """A queue and region in one word; names have no control characters."""
    return "\x1f".join(place)


def summed(docs: Iterable[Doc]) -> dict[tuple[str, str, str], float]:
    """The sums of these documents by queue, region and name."""
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    for doc in docs:
        for name, value in doc["sums"].items():
            sums[doc["queue"], doc["region"], unquote(name)] += value
    return dict(sums)


def health_by_place(
    slots: Sequence[Doc], breakers: Mapping[Place, Breaker], now: int
) -> dict[Place, Health]:
    """How attempts went lately wherever something was counted or a breaker was switched."""
    by_place: dict[Place, list[Doc]] = {place: [] for place in breakers}
    for slot in slots:
        by_place.setdefault((slot["queue"], slot["region"]), []).append(slot)
    return {
        place: health_of(each, breakers.get(place, CLOSED), now) for place, each in by_place.items()
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
