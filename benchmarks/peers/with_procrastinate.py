"""Procrastinate on PostgreSQL: 20 jobs at a time, notified of new ones; jobs are kept.

It looks for due retries every five seconds, as by default. Left: todo or doing. A plain function
runs in a thread.
"""

import asyncio
import logging

import procrastinate
from jobs import CONCURRENCY, URL, work_async
from psycopg import AsyncConnection

DISTRIBUTION = "procrastinate"
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL))


class OnceError(Exception):
    """A failure that says how long to wait."""


class Once(procrastinate.BaseRetryStrategy):
    """Retry after the delay that the failure names."""

    def get_retry_decision(self, *, exception, job):
        """Every failure of these jobs is to be retried."""
        del job
        return procrastinate.RetryDecision(retry_in={"seconds": exception.args[0]})


@app.task(name="noop")
async def noop(number):
    """Do nothing."""
    del number


@app.task(name="plain_noop")
def plain_noop(number):
    """Do nothing in a thread."""
    del number


@app.task(name="work", retry=Once())
async def work(job, seconds, delay):
    """Take so long, and fail once if there is a delay."""
    if await work_async(job, seconds, delay):
        raise OnceError(delay)


class Client:
    """Enqueues and counts."""

    async def open(self):
        """Make the schema."""
        logging.disable()
        await app.open_async()
        await app.schema_manager.apply_schema_async()
        self.db = await AsyncConnection.connect(URL, autocommit=True)

    async def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            await noop.defer_async(number=number)

    async def enqueue_many(self, count, plain):
        """In bulk."""
        task = plain_noop if plain else noop
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            await task.batch_defer_async(*({"number": number} for number in numbers))

    async def enqueue_work(self, calls):
        """Jobs that note the time."""
        names = ("job", "seconds", "delay")
        await work.batch_defer_async(*(dict(zip(names, call, strict=True)) for call in calls))

    async def left(self):
        """Todo or doing."""
        return await self.count("('todo', 'doing')")

    async def failed(self):
        """Failed for good."""
        return await self.count("('failed', 'aborted', 'cancelled')")

    async def count(self, statuses):
        """Rows of the table of jobs."""
        query = f"SELECT count(*) FROM procrastinate_jobs WHERE status IN {statuses}"  # noqa: S608 - constants
        return (await (await self.db.execute(query)).fetchone())[0]


def worker():
    """One process."""
    logging.disable()
    asyncio.run(main())


async def main():
    """Work until a signal."""
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY or 20)
