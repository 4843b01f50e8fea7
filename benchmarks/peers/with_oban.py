"""oban, the Python one, on PostgreSQL: 50 jobs at a time, uvloop; done jobs are kept for a day.

Its stager looks for due retries once a second, as by default. Left: what is not in a final state.
It has no plain functions that do not block its loop.
"""

import asyncio
import signal

import uvloop
from jobs import CONCURRENCY, URL, work_async
from oban import Oban
from oban import worker as oban_worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

DISTRIBUTION = "oban"


@oban_worker(queue="default")
class Noop:
    """Do nothing."""

    async def process(self, _job):
        """Do nothing."""


@oban_worker(queue="default", max_attempts=2)
class Work:
    """Take so long, and fail once if there is a delay."""

    async def process(self, job):
        """Its arguments say how long."""
        if await work_async(*job.args["call"]):
            raise RuntimeError("once")

    def backoff(self, job):
        """The delay that the job asks for."""
        return job.args["call"][2]


class Client:
    """Enqueues and counts."""

    async def open(self):
        """Make the schema."""
        self.pool = AsyncConnectionPool(URL, open=False)
        await self.pool.open()
        await install(self.pool)
        self.oban = Oban(pool=self.pool)

    async def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            await self.oban.enqueue(Noop.new({"number": number}))

    async def enqueue_many(self, count, _plain):
        """In bulk."""
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            await self.oban.enqueue_many(Noop.new({"number": number}) for number in numbers)

    async def enqueue_work(self, calls):
        """Jobs that note the time."""
        await self.oban.enqueue_many(Work.new({"call": call}) for call in calls)

    async def left(self):
        """In no final state."""
        return await self.count("('available', 'scheduled', 'executing', 'retryable')")

    async def failed(self):
        """Given up."""
        return await self.count("('discarded', 'cancelled')")

    async def count(self, states):
        """Rows of the table of jobs."""
        query = f"SELECT count(*) FROM oban_jobs WHERE state IN {states}"  # noqa: S608 - constants
        async with self.pool.connection() as db:
            return (await (await db.execute(query)).fetchone())[0]


def worker():
    """One process."""
    uvloop.run(main())


async def main():
    """Work until a signal."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with (
        AsyncConnectionPool(URL, min_size=2, max_size=8, open=False) as pool,
        Oban(pool=pool, queues={"default": CONCURRENCY or 50}),
    ):
        await stop.wait()
