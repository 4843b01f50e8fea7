"""Waiting: the workers that sleep in this process, and how they hear that they were rung.

A ring is a mark in the sleeper's document. Who rings a sleeper of the same process wakes it at
once; what another process rings is told by a change stream, or else found by looking for marks.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pymongo.errors import PyMongoError

from mulligan.core.worker import Worker
from mulligan.stores.mongo.base import Base, rows

# A look costs over half a millisecond of processor time: at the slow pace a third of one per cent.
QUICK, SLOW = 0.005, 0.2
# The longer ago anyone here was rung, the longer the pause before the next look.
PART_OF_SILENCE = 0.25
# With a change stream the marks are looked for only in case it lost one.
STREAMED = 1.0
# How soon a document that another program inserted is noticed while all sleep.
STRAY_EVERY = 1.0


class Waiting:
    """Those that sleep here. One ring ends one wait."""

    def __init__(self, base: Base, take_in_strays: Callable[[], Awaitable[float]]) -> None:
        self.base = base
        self.streaming = False
        self._take_in_strays = take_in_strays
        self._asleep: dict[str, asyncio.Future[None]] = {}
        self._rung_at = 0.0
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def wait(self, worker: Worker, seconds: float) -> None:
        """Sleep until rung, or until the time is up.

        The driver may swallow that: with socketTimeoutMS it sends by wait_for, and that of Python
        3.11 forgets a cancellation that meets the answer.
        """
        asleep = self._asleep[worker.id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds) as timer:
                await self.listen(worker.id)
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
        """End the worker's wait, if it sleeps here; its ring has been heard."""
        asleep = self._asleep.get(worker)
        if asleep is not None and not asleep.done():
            asleep.set_result(None)
            self._rung_at = time.monotonic()

    async def listen(self, worker: str) -> None:
        """Wake the worker if it was rung and has not heard it yet."""
        reply = await self.base.sleepers.update_one(
            {"_id": worker, "rung": True, "heard": False}, {"$set": {"heard": True}}
        )
        if reply.modified_count:
            self.wake(worker)

    async def listen_all(self) -> None:
        """Wake all that were rung."""
        rung = list(self._asleep)
        if len(rung) > 1:
            query = {"_id": {"$in": rung}, "rung": True, "heard": False}
            rung = [doc["_id"] for doc in await rows(self.base.sleepers.find(query, {"_id": 1}))]
        for worker in rung:
            await self.listen(worker)

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
            silence = time.monotonic() - self._rung_at
            pause = min(max(PART_OF_SILENCE * silence, QUICK), SLOW)
            await asyncio.sleep(STREAMED if self.streaming else pause)
            with suppress(PyMongoError):  # the sleepers' own timers go on
                await self.listen_all()

    async def _look_for_strays(self) -> None:
        pause = STRAY_EVERY
        while self._asleep:
            await asyncio.sleep(min(pause, STRAY_EVERY))
            pause = STRAY_EVERY
            with suppress(PyMongoError):
                pause = await self._take_in_strays()

    async def _follow(self) -> None:
        """Hear rings from other processes as they happen, where the server can tell them."""
        match = [{"$match": {"updateDescription.updatedFields.rung": True}}]
        try:
            async with await self.base.sleepers.watch(match) as changes:
                async for change in changes:
                    if change["documentKey"]["_id"] in self:
                        await self.listen(change["documentKey"]["_id"])
        except PyMongoError:
            self.streaming = False  # from now on the marks are looked at more often

    async def close(self) -> None:
        """Stop looking."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
