"""PgQueuer on PostgreSQL: asyncpg, uvloop, batches of 100, no limit; done jobs go to its log.

At a concurrency of 4 batches are of 2, as it allows no more. Left: rows of its queue table. Failed:
what its log calls an exception. It has no plain functions. Its limit is one of the entrypoint, for
all workers.
"""

import asyncio
import json
import logging
from contextlib import suppress
from datetime import timedelta

import asyncpg
import uvloop
from jobs import CONCURRENCY, PERMITS, URL, work_async
from pgqueuer import PgQueuer, RetryRequested
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

DISTRIBUTION = "pgqueuer"


class Client:
    """Enqueues and counts."""

    async def open(self):
        """Make the schema, unless another process has."""
        self.db = await asyncpg.connect(URL)
        self.queries = Queries(AsyncpgDriver(self.db))
        with suppress(asyncpg.DuplicateObjectError):
            await self.queries.install()

    async def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            await self.queries.enqueue("noop", str(number).encode())

    async def enqueue_many(self, count, _plain):
        """In bulk."""
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            payloads = [str(number).encode() for number in numbers]
            await self.queries.enqueue(["noop"] * len(payloads), payloads, [0] * len(payloads))

    async def enqueue_work(self, calls):
        """Jobs that note the time."""
        payloads = [json.dumps(call).encode() for call in calls]
        await self.queries.enqueue(["work"] * len(calls), payloads, [0] * len(calls))

    async def left(self):
        """Rows of the queue."""
        return await self.db.fetchval("SELECT count(*) FROM pgqueuer")

    async def failed(self):
        """What the log says."""
        return await self.db.fetchval(
            "SELECT count(*) FROM pgqueuer_log WHERE status = 'exception'"
        )


def worker():
    """One process."""
    logging.disable()
    uvloop.run(main())


async def main():
    """Work until a signal."""
    queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(URL))

    @queuer.entrypoint("noop")
    async def noop(_job):
        """Do nothing."""

    @queuer.entrypoint("work", concurrency_limit=PERMITS)
    async def work(job):
        """Take so long, and fail once if there is a delay."""
        call = json.loads(job.payload)
        if await work_async(*call):
            raise RetryRequested(delay=timedelta(seconds=call[2]))

    limit = {"batch_size": 100}
    if CONCURRENCY:
        limit = {"batch_size": CONCURRENCY // 2, "max_concurrent_tasks": CONCURRENCY}
    await asyncio.create_task(queuer.run(**limit))
