"""Bells: which workers sleep, for what, and who is rung for news.

A sleeper is a document of its own, and ringing marks it.
"""

from collections.abc import Iterable, Sequence
from time import time_ns

from msgspec import Struct
from pymongo import UpdateMany

from mulligan.core.plan import ClaimPlan
from mulligan.core.walk import sources
from mulligan.core.worker import Worker
from mulligan.stores.mongo import inbox
from mulligan.stores.mongo.base import Base, Doc, line_of, rows
from mulligan.stores.mongo.colliding import write
from mulligan.stores.mongo.documents import AWAITING
from mulligan.stores.mongo.times import micros, seconds
from mulligan.stores.mongo.waiting import Waiting

FOREVER = float("inf")
# Sleepers that are looked through for one to ring, the longest asleep first.
MANY = 200


class News(Struct, frozen=True):
    """Something that may end a sleep: a job in a lane, due then, or a permit freed at a gate."""

    line: str = ""
    due: int = 0
    gate: str = ""


class Bells:
    """The sleepers of the store, of whom only those count that beat."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.waiting = Waiting(base, self.take_in_strays)
        self._expected: set[str] = set()

    async def expect(self, worker: Worker, plan: ClaimPlan, until: float, alive: int) -> None:
        """Remember that the worker waits for this plan, and sleeps by itself until then."""
        every = list(sources(plan))
        lanes = {line_of(s.lane): s for s in every}
        fields: Doc = {
            "lanes": [
                {"line": line, "waited": s.waited, "yields": s.yields} for line, s in lanes.items()
            ],
            "until": None if until == FOREVER else micros(until),
            "gates": sorted({gate.key for s in every for gate in s.limits}),
            "rung": False,
            "heard": False,
        }
        # Another process may have beaten for the worker since.
        later = {"$max": {"alive": alive}, "$setOnInsert": {"since": time_ns()}}
        self._expected.add(worker.id)
        await self.base.sleepers.update_one(
            {"_id": worker.id}, {"$set": fields, **later}, upsert=True
        )

    async def stop_waiting(self, worker: str, standing: Sequence[News]) -> None:
        """The worker has all it asked for: what it may have been rung for is for another now."""
        if worker in self._expected:
            await self.forget(worker)
            await self.ring(standing)

    async def keep(self, worker: str, alive: int) -> None:
        """The worker has beaten, and may sleep on."""
        await self.base.sleepers.update_one({"_id": worker}, {"$set": {"alive": alive}})

    async def forget(self, worker: str) -> list[str]:
        """The worker waits no longer; the lanes that it waited for."""
        self._expected.discard(worker)
        sleeper = await self.base.sleepers.find_one_and_delete({"_id": worker})
        return [] if sleeper is None else [lane["line"] for lane in sleeper["lanes"]]

    async def ring(self, news: Sequence[News]) -> None:
        """Wake one sleeper for each piece of news that is news to one."""
        left = list(news)
        while left:
            lines = sorted({each.line for each in left if each.line})
            gates = sorted({each.gate for each in left if each.gate})
            query = {
                "rung": False,
                "alive": {"$gt": await self.base.now()},
                "$or": [{"lanes.line": {"$in": lines}}, {"gates": {"$in": gates}}],
            }
            sleepers = await rows(self.base.sleepers.find(query).sort("since", 1).limit(MANY))
            if not sleepers:
                return
            left = await self._match(left, sleepers)

    async def _match(self, news: Sequence[News], sleepers: list[Doc]) -> list[News]:
        """Ring the first sleeper for each; returns the news whose sleeper was rung before.

        It is one of those that may take the job soonest: at once rather than after a grace.
        """
        again: list[News] = []
        for each in news:
            caring = [sleeper for sleeper in sleepers if cares(sleeper, each)]
            soonest, yields = min((grace(s, each) for s in caring), default=(0.0, False))
            caring = [sleeper for sleeper in caring if grace(sleeper, each)[0] == soonest]
            if yields and soonest and await self._nobody_sooner(each.line, soonest):
                soonest = 0.0
            if not caring or any(wakes_in_time(sleeper, each, soonest) for sleeper in caring):
                continue
            sleepers.remove(caring[0])
            if not await self._mark(caring[0]["_id"]):
                again.append(each)
        return again

    async def _nobody_sooner(self, line: str, waited: float) -> bool:
        return (await self.soonest([line])).get(line, FOREVER) >= waited

    async def soonest(self, lines: Sequence[str], but: str = "") -> dict[str, float]:
        """For each lane the shortest wait of a live sleeper for it, other than this worker."""
        alive = {"$gt": await self.base.now()}
        query = {"_id": {"$ne": but}, "alive": alive, "lanes.line": {"$in": list(lines)}}
        waits: dict[str, float] = {}
        found = await rows(self.base.sleepers.find(query, {"lanes": 1}))
        for lane in [each for sleeper in found for each in sleeper["lanes"]]:
            waits[lane["line"]] = min(lane["waited"], waits.get(lane["line"], FOREVER))
        return waits

    async def _mark(self, worker: str) -> bool:
        here = worker in self.waiting
        reply = await self.base.sleepers.update_one(
            {"_id": worker, "rung": False}, {"$set": {"rung": True, "heard": here}}
        )
        if reply.modified_count and here:
            self.waiting.wake(worker)
        return bool(reply.modified_count)

    async def ring_all(self) -> None:
        """Wake every sleeper: plans made before are of no use."""
        await write(self.base.sleepers, [UpdateMany({"rung": False}, {"$set": {"rung": True}})])
        await self.waiting.listen_all()

    # -- other programs ---------------------------------------------------------------------

    async def take_in_strays(self) -> float:
        """Take in what is due of what other programs inserted or put back.

        Returns in how many seconds the next one is.
        """
        await self.base.read_default_task()
        await self.take_in(await inbox.due_strays(self.base, await self.base.now()))
        return await inbox.next_stray(self.base, await self.base.now())

    async def take_in(self, docs: Sequence[Doc]) -> None:
        """Take in what other programs inserted, put back or put off, and ring for it."""
        joined = await inbox.take_in(self.base, docs, await self.base.now())
        await self.ring([News(line, due) for line, due in joined])


def cares(sleeper: Doc, news: News) -> bool:
    """Whether the sleeper may take the job, or waits at the gate."""
    if news.gate:
        return news.gate in sleeper["gates"]
    return any(lane["line"] == news.line for lane in sleeper["lanes"])


def grace(sleeper: Doc, news: News) -> tuple[float, bool]:
    """How long a job must have been due before the sleeper may take it, and whether it yields."""
    for lane in sleeper["lanes"]:
        if lane["line"] == news.line:
            return lane["waited"], lane["yields"]
    return 0.0, False


def wakes_in_time(sleeper: Doc, news: News, waits: float) -> bool:
    """Whether the sleeper's own timer goes off when the job falls due for it, or before."""
    if news.gate or sleeper["until"] is None:
        return False
    return bool(sleeper["until"] <= news.due + micros(waits))


def news_of(docs: Iterable[Doc]) -> list[News]:
    """The news of jobs that have come; one that awaits others is none yet."""
    return [
        News(doc["mulligan"]["line"], doc["mulligan"]["due"])
        for doc in docs
        if doc["status"] == "pending" and doc["mulligan"]["line"] != AWAITING
    ]


def until(now: int, again_in: float | None) -> float:
    """When a worker that was told `again_in` wakes by itself, in seconds."""
    return FOREVER if again_in is None else seconds(now) + again_in
