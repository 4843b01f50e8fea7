"""Who waits for jobs to end: told at once by commits of this store, else by looking.

A look asks for all jobs that callers of this store wait for, in one query. The longer they have
waited in vain, the longer the pause before the next look.
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from pymongo.errors import PyMongoError

from mulligan.core.job import ENDED
from mulligan.stores.mongo.connection import Connection, keys_of, rows
from mulligan.stores.watches import Tell, Watch, Watches

# Seconds between two looks. A look costs over half a millisecond of processor time.
QUICK, SLOW = 0.002, 0.2
# The longer ago anybody began to wait or was told, the longer the pause before the next look.
PART_OF_SILENCE = 0.1


class Watcher:
    """The waiting callers of one store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._watches: Watches[str] = Watches()
        self._looking: asyncio.Task[None] | None = None
        self._last_news = 0.0

    def watch(self, job: str, tell: Tell) -> Watch:
        """Have `tell` called when the job ends, and look until it does."""
        self._watches.add(job, tell)
        self._last_news = time.monotonic()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return Watch(partial(self._watches.remove, job, tell), is_told=True)

    def ended(self, jobs: Iterable[str]) -> None:
        """Jobs have ended here."""
        self._watches.tell(jobs)

    async def _look(self) -> None:
        while jobs := self._watches.jobs():
            silence = time.monotonic() - self._last_news
            await asyncio.sleep(min(max(PART_OF_SILENCE * silence, QUICK), SLOW))
            with suppress(PyMongoError):  # callers look by themselves as well
                if ended := await self._ended(jobs):
                    self._last_news = time.monotonic()
                    self._watches.tell(ended)

    async def _ended(self, jobs: list[str]) -> set[str]:
        """Those of the jobs that have ended."""
        keys = [key for job in jobs for key in keys_of(job)]
        query = {"_id": {"$in": keys}, "status": {"$in": sorted(ENDED)}}
        found = [
            await rows(collection.find(query, {"_id": 1}))
            for collection in self._connection.collections
        ]
        return {str(doc["_id"]) for docs in found for doc in docs}

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
            self._looking = None
