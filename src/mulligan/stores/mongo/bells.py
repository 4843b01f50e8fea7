"""Bells: which workers sleep, for what, and how they are woken.

A sleeper is a document of its own; ringing marks it. A sleeper in this process is woken at once,
one elsewhere by its change stream, or by looking at the marks every few milliseconds.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import time_ns

from msgspec import Struct
from pymongo import UpdateMany
from pymongo.errors import PyMongoError

from mulligan.core.plan import ClaimPlan
from mulligan.core.walk import sources
from mulligan.core.worker import Worker
from mulligan.stores.mongo import foreign
from mulligan.stores.mongo.base import Base, Doc, line_of, rows
from mulligan.stores.mongo.colliding import write
from mulligan.stores.mongo.documents import AWAITING
from mulligan.stores.mongo.times import micros, seconds

# A look costs half a millisecond of processor time: at the slow pace well under one per cent.
QUICK, SLOW, GROWTH = 0.005, 0.08, 1.3
# With a change stream the marks are looked at only in case it lost one.
STREAMED = 1.0
# How soon a document that another program inserted is noticed while all sleep.
STRAY_EVERY = 0.5
FOREVER = float("inf")
# Sleepers that are looked through for one to ring, the longest asleep first.
MANY = 200


class News(Struct, frozen=True):
    """Something that may end a sleep: a job in a lane, due then, or a permit freed at a gate."""

    line: str = ""
    due: int = 0
    gate: str = ""


class Bells:
    """The sleepers of the store, and those that sleep in this process."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.streaming = False
        self._expected: set[str] = set()
        self._events: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def expect(self, worker: Worker, plan: ClaimPlan, until: float) -> None:
        """Remember that the worker waits for this plan, and sleeps by itself until then."""
        every = list(sources(plan))
        lanes = {line_of(s.lane): s for s in every}
        fields: Doc = {
            "lanes": [
                {"line": line, "waited": s.waited, "yields": s.yields} for line, s in lanes.items()
            ],
            "until": None if until == FOREVER else micros(until),
            "gates": sorted({gate.key for s in every for gate in s.gates}),
            "rung": False,
            "heard": False,
        }
        self._expected.add(worker.id)
        await self.base.sleepers.update_one(
            {"_id": worker.id}, {"$set": fields, "$setOnInsert": {"since": time_ns()}}, upsert=True
        )

    async def stop_waiting(self, worker: str, standing: Sequence[News]) -> None:
        """The worker has all it asked for: what it may have been rung for is for another now."""
        if worker in self._expected:
            await self.forget(worker)
            await self.ring(standing)

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
                "$or": [{"lanes.line": {"$in": lines}}, {"gates": {"$in": gates}}],
            }
            found = await rows(self.base.sleepers.find(query).sort("since", 1).limit(MANY))
            live = await self._live([sleeper["_id"] for sleeper in found])
            sleepers = [sleeper for sleeper in found if sleeper["_id"] in live]
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
        query = {"_id": {"$ne": but}, "lanes.line": {"$in": list(lines)}}
        found = await rows(self.base.sleepers.find(query, {"lanes": 1}))
        live = await self._live([sleeper["_id"] for sleeper in found])
        waits: dict[str, float] = {}
        for lane in [each for s in found if s["_id"] in live for each in s["lanes"]]:
            waits[lane["line"]] = min(lane["waited"], waits.get(lane["line"], FOREVER))
        return waits

    async def _live(self, workers: list[str]) -> set[str]:
        """Those that beat: another would be rung in vain."""
        if not workers:
            return set()
        query = {"_id": {"$in": workers}, "expires": {"$gt": await self.base.now()}}
        return {doc["_id"] for doc in await rows(self.base.workers.find(query, {"_id": 1}))}

    async def _mark(self, worker: str) -> bool:
        reply = await self.base.sleepers.update_one(
            {"_id": worker, "rung": False}, {"$set": {"rung": True}}
        )
        if reply.modified_count and worker in self._events:
            self._events[worker].set()
        return bool(reply.modified_count)

    async def ring_all(self) -> None:
        """Wake every sleeper: plans made before are of no use."""
        await write(self.base.sleepers, [UpdateMany({"rung": False}, {"$set": {"rung": True}})])
        for event in self._events.values():
            event.set()

    # -- waiting ---------------------------------------------------------------------------

    async def wait(self, worker: Worker, seconds_: float) -> None:
        """Sleep until rung, or until the time is up. One ring ends one wait."""
        event = self._events[worker.id] = asyncio.Event()
        try:
            async with asyncio.timeout(seconds_):
                while not await self._hear(worker.id):
                    self._watch()
                    await event.wait()
                    event.clear()
        except TimeoutError:
            pass
        finally:
            if self._events.get(worker.id) is event:
                del self._events[worker.id]

    async def _hear(self, worker: str) -> bool:
        reply = await self.base.sleepers.update_one(
            {"_id": worker, "rung": True, "heard": False}, {"$set": {"heard": True}}
        )
        return bool(reply.modified_count)

    def _watch(self) -> None:
        """Look at the marks for as long as anyone here sleeps."""
        jobs = {"marks": self._look, "strays": self._look_for_strays}
        if self.streaming:
            jobs["stream"] = self._listen
        for name, job in jobs.items():
            if name not in self._tasks or self._tasks[name].done():
                self._tasks[name] = asyncio.create_task(job())

    async def _look(self) -> None:
        pause = QUICK
        while self._events:
            await asyncio.sleep(STREAMED if self.streaming else pause)
            pause = min(pause * GROWTH, SLOW)
            with suppress(PyMongoError):  # the sleepers' own timers go on
                await self._wake({"_id": {"$in": list(self._events)}, "rung": True, "heard": False})

    async def _wake(self, query: Doc) -> None:
        for doc in await rows(self.base.sleepers.find(query, {"_id": 1})):
            if doc["_id"] in self._events:
                self._events[doc["_id"]].set()

    async def _look_for_strays(self) -> None:
        while self._events:
            await asyncio.sleep(STRAY_EVERY)
            with suppress(PyMongoError):
                await self.take_in_strays()

    async def take_in_strays(self) -> None:
        """Take in what other programs inserted or put back."""
        await self.take_in(await foreign.strays(self.base))

    async def take_in(self, docs: Sequence[Doc]) -> None:
        """Take in what other programs inserted, put back or put off, and ring for it."""
        joined = await foreign.take_in(self.base, docs, await self.base.now())
        await self.ring([News(line, due) for line, due in joined])

    async def _listen(self) -> None:
        """Hear rings from other processes as they happen, where the server can tell them."""
        match = [{"$match": {"updateDescription.updatedFields.rung": True}}]
        try:
            async with await self.base.sleepers.watch(match) as changes:
                async for change in changes:
                    event = self._events.get(change["documentKey"]["_id"])
                    if event is not None:
                        event.set()
        except PyMongoError:
            self.streaming = False  # from now on the marks are looked at more often

    async def close(self) -> None:
        """Stop looking."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()


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
