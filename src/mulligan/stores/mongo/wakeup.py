"""Wake-ups: which workers sleep, for what, and which of them is woken.

Each sleeper is a document, and a wake-up is a mark in it. A sleeper of the same process is woken
at once; one of another process notices the mark by a change stream, or else by looking for it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from time import time_ns
from typing import Protocol

from msgspec import Struct
from pymongo import UpdateMany
from pymongo.errors import PyMongoError

from mulligan.core.plan import ClaimPlan
from mulligan.core.worker import Worker
from mulligan.stores.mongo import inbox
from mulligan.stores.mongo.bulk_write import write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import (
    AWAITING,
    Doc,
    lane_name,
    micros,
    seconds,
    stands_in_line,
)
from mulligan.stores.mongo.events import Event

FOREVER = float("inf")
# Sleepers that are looked through for one to wake, the longest asleep first.
MANY = 200
# A look costs over half a millisecond of processor time: at the slow pace a third of one per cent.
QUICK, SLOW = 0.005, 0.2
# The longer ago anyone here was woken, the longer the pause before the next look.
PART_OF_SILENCE = 0.25
# With a change stream the marks are looked for only in case it lost one.
STREAMED = 1.0
# How soon a document that another program inserted is noticed while all sleep.
STRAY_EVERY = 1.0


class News(Struct, frozen=True):
    """Something that may end a sleep: a job in a lane, due then, or a permit of a limit."""

    lane: str = ""
    due: int = 0
    limit: str = ""


class TellsBook(Protocol):
    """Who is told of jobs that stand in lines."""

    async def tell_and_wake(self, events: Sequence[Event]) -> None:
        """Tell the book, and wake whom that is news for."""


class Wakeup:
    """The sleepers of the store; those whose worker no longer beats do not count."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.book: TellsBook  # set by the book, which wakes sleepers itself
        self.local = LocalSleepers(connection, self.take_in_strays)
        self._registered: set[str] = set()

    async def register(self, worker: Worker, plan: ClaimPlan, until: float, alive: int) -> None:
        """Remember that the worker waits for this plan, and sleeps by itself until then."""
        every = list(plan.sources)
        lanes = {lane_name(s.lane): s for s in every}
        fields: Doc = {
            "lanes": [
                {"lane": lane, "waited": s.waited, "yields": s.yields} for lane, s in lanes.items()
            ],
            "until": None if until == FOREVER else micros(until),
            "limits": sorted({limit.key for s in every for limit in s.limits}),
            "woken": False,
            "noticed": False,
        }
        # Another process may have beaten for the worker since.
        later = {"$max": {"alive": alive}, "$setOnInsert": {"since": time_ns()}}
        self._registered.add(worker.id)
        await self.connection.sleepers.update_one(
            {"_id": worker.id}, {"$set": fields, **later}, upsert=True
        )

    async def stop_waiting(self, worker: str, standing: Sequence[News]) -> None:
        """The worker has all it asked for: what it was woken for is for another now."""
        if worker in self._registered:
            await self.forget(worker)
            await self.wake(standing)

    async def keep(self, worker: str, alive: int) -> None:
        """The worker has beaten, and may sleep on."""
        await self.connection.sleepers.update_one({"_id": worker}, {"$set": {"alive": alive}})

    async def forget(self, worker: str) -> list[str]:
        """The worker waits no longer; the lanes that it waited for."""
        self._registered.discard(worker)
        sleeper = await self.connection.sleepers.find_one_and_delete({"_id": worker})
        return [] if sleeper is None else [lane["lane"] for lane in sleeper["lanes"]]

    async def wake(self, news: Sequence[News], but: str = "") -> None:
        """Wake one sleeper for each piece of news that is news to one, other than this worker."""
        left = list(news)
        while left:
            lanes = sorted({each.lane for each in left if each.lane})
            limits = sorted({each.limit for each in left if each.limit})
            query = {
                "_id": {"$ne": but},
                "woken": False,
                "alive": {"$gt": await self.connection.now()},
                "$or": [{"lanes.lane": {"$in": lanes}}, {"limits": {"$in": limits}}],
            }
            sleepers = await rows(self.connection.sleepers.find(query).sort("since", 1).limit(MANY))
            if not sleepers:
                return
            left = await self._match(left, sleepers)

    async def _match(self, news: Sequence[News], sleepers: list[Doc]) -> list[News]:
        """Wake the first sleeper for each; returns the news whose sleeper was woken before.

        It is one of those that may take the job soonest: at once rather than after a grace.
        """
        again: list[News] = []
        for each in news:
            caring = [sleeper for sleeper in sleepers if cares(sleeper, each)]
            soonest, yields = min((grace(s, each) for s in caring), default=(0.0, False))
            caring = [sleeper for sleeper in caring if grace(sleeper, each)[0] == soonest]
            if yields and soonest and await self._nobody_sooner(each.lane, soonest):
                soonest = 0.0
            if not caring or any(wakes_in_time(sleeper, each, soonest) for sleeper in caring):
                continue
            sleepers.remove(caring[0])
            if not await self._mark(caring[0]["_id"]):
                again.append(each)
        return again

    async def _nobody_sooner(self, lane: str, waited: float) -> bool:
        return (await self.soonest([lane])).get(lane, FOREVER) >= waited

    async def soonest(self, lanes: Sequence[str], but: str = "") -> dict[str, float]:
        """For each lane the shortest wait of a live sleeper for it, other than this worker."""
        alive = {"$gt": await self.connection.now()}
        query = {"_id": {"$ne": but}, "alive": alive, "lanes.lane": {"$in": list(lanes)}}
        waits: dict[str, float] = {}
        found = await rows(self.connection.sleepers.find(query, {"lanes": 1}))
        for lane in [each for sleeper in found for each in sleeper["lanes"]]:
            waits[lane["lane"]] = min(lane["waited"], waits.get(lane["lane"], FOREVER))
        return waits

    async def _mark(self, worker: str) -> bool:
        here = worker in self.local
        reply = await self.connection.sleepers.update_one(
            {"_id": worker, "woken": False}, {"$set": {"woken": True, "noticed": here}}
        )
        if reply.modified_count and here:
            self.local.wake(worker)
        return bool(reply.modified_count)

    async def wake_all(self) -> None:
        """Wake every sleeper: plans made before are of no use."""
        await write(
            self.connection.sleepers, [UpdateMany({"woken": False}, {"$set": {"woken": True}})]
        )
        await self.local.notice_all()

    # -- other programs ---------------------------------------------------------------------

    async def take_in_strays(self) -> float:
        """Take in what is due of what other programs inserted or put back.

        Returns in how many seconds the next one is.
        """
        await self.connection.read_default_task()
        await self.take_in(await inbox.due_strays(self.connection, await self.connection.now()))
        return await inbox.next_stray(self.connection, await self.connection.now())

    async def take_in(self, docs: Sequence[Doc]) -> None:
        """Take in what other programs inserted, put back or put off, and wake sleepers for it."""
        joined = await inbox.take_in(self.connection, docs, await self.connection.now())
        plain = [each for each in joined if each.event is None]
        await self.wake([News(each.lane, each.due) for each in plain])
        await self.book.tell_and_wake([each.event for each in joined if each.event is not None])


def cares(sleeper: Doc, news: News) -> bool:
    """Whether the sleeper may take the job, or waits for the limit."""
    if news.limit:
        return news.limit in sleeper["limits"]
    return any(lane["lane"] == news.lane for lane in sleeper["lanes"])


def grace(sleeper: Doc, news: News) -> tuple[float, bool]:
    """How long a job must have been due before the sleeper may take it, and whether it yields."""
    for lane in sleeper["lanes"]:
        if lane["lane"] == news.lane:
            return lane["waited"], lane["yields"]
    return 0.0, False


def wakes_in_time(sleeper: Doc, news: News, waits: float) -> bool:
    """Whether the sleeper's own timer goes off when the job falls due for it, or before."""
    if news.limit or sleeper["until"] is None:
        return False
    return bool(sleeper["until"] <= news.due + micros(waits))


def news_of(docs: Iterable[Doc]) -> list[News]:
    """The news of jobs that stand in lanes; one that awaits others is none yet."""
    return [
        News(doc["mulligan"]["lane"], doc["mulligan"]["due"])
        for doc in docs
        if doc["status"] == "pending"
        and doc["mulligan"]["lane"] != AWAITING
        and not stands_in_line(doc)
    ]


def until(now: int, again_in: float | None) -> float:
    """When a worker whose claim said `again_in` wakes by itself, in seconds."""
    return FOREVER if again_in is None else seconds(now) + again_in


class LocalSleepers:
    """The workers that sleep in this process. One wake-up ends one wait."""

    def __init__(
        self, connection: Connection, take_in_strays: Callable[[], Awaitable[float]]
    ) -> None:
        self.connection = connection
        self.streaming = False
        self._take_in_strays = take_in_strays
        self._asleep: dict[str, asyncio.Future[None]] = {}
        self._woken_at = 0.0
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def wait(self, worker: Worker, seconds: float) -> None:
        """Sleep until woken, or until the time is up.

        The driver may swallow that: with socketTimeoutMS it sends by wait_for, and that of Python
        3.11 forgets a cancellation that meets the answer.
        """
        asleep = self._asleep[worker.id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds) as timer:
                await self.notice(worker.id)
                self._watch()
                if not timer.expired():
                    await asleep
        except TimeoutError:
            pass
        finally:
            if self._asleep.get(worker.id) is asleep:
                del self._asleep[worker.id]

    def __contains__(self, worker: str) -> bool:
        """Whether the worker sleeps here."""
        return worker in self._asleep

    def wake(self, worker: str) -> None:
        """End the worker's wait, if it sleeps here; the wake-up is marked as noticed."""
        asleep = self._asleep.get(worker)
        if asleep is not None and not asleep.done():
            asleep.set_result(None)
            self._woken_at = time.monotonic()

    async def notice(self, worker: str) -> None:
        """End the worker's wait if its document is marked and it has not noticed yet."""
        reply = await self.connection.sleepers.update_one(
            {"_id": worker, "woken": True, "noticed": False}, {"$set": {"noticed": True}}
        )
        if reply.modified_count:
            self.wake(worker)

    async def notice_all(self) -> None:
        """End the waits of all whose document is marked."""
        woken = list(self._asleep)
        if len(woken) > 1:
            query = {"_id": {"$in": woken}, "woken": True, "noticed": False}
            woken = [
                doc["_id"] for doc in await rows(self.connection.sleepers.find(query, {"_id": 1}))
            ]
        for worker in woken:
            await self.notice(worker)

    # -- watching --------------------------------------------------------------------------

    def _watch(self) -> None:
        """Look for marks and strays for as long as anyone here sleeps."""
        jobs = {"marks": self._look, "strays": self._look_for_strays}
        if self.streaming:
            jobs["stream"] = self._follow
        for name, job in jobs.items():
            if name not in self._tasks or self._tasks[name].done():
                self._tasks[name] = asyncio.create_task(job())

    async def _look(self) -> None:
        while self._asleep:
            silence = time.monotonic() - self._woken_at
            pause = min(max(PART_OF_SILENCE * silence, QUICK), SLOW)
            await asyncio.sleep(STREAMED if self.streaming else pause)
            with suppress(PyMongoError):  # the sleepers' own timers go on
                await self.notice_all()

    async def _look_for_strays(self) -> None:
        pause = STRAY_EVERY
        while self._asleep:
            await asyncio.sleep(min(pause, STRAY_EVERY))
            pause = STRAY_EVERY
            with suppress(PyMongoError):
                pause = await self._take_in_strays()

    async def _follow(self) -> None:
        """Notice wake-ups by other processes as they happen, by a change stream."""
        match = [{"$match": {"updateDescription.updatedFields.woken": True}}]
        try:
            async with await self.connection.sleepers.watch(match) as changes:
                async for change in changes:
                    if change["documentKey"]["_id"] in self:
                        await self.notice(change["documentKey"]["_id"])
        except PyMongoError:
            self.streaming = False  # from now on the marks are looked at more often

    async def close(self) -> None:
        """Stop looking."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
