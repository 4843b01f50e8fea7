"""arq on Redis: 100 jobs at a time, uvloop; polling every 0.5 s, as by default, or every 10 ms.

Results are kept for an hour, as by default. A job stays in the queue's sorted set until it has
ended, so that left is the size of the set. No call enqueues in bulk. Coroutines only.
"""

import asyncio
import logging

import uvloop
from arq import Retry, create_pool
from arq.connections import RedisSettings
from arq.worker import Worker
from jobs import CONCURRENCY, URL, VARIANT, work_async

DISTRIBUTION = "arq"
SETTINGS = RedisSettings.from_dsn(URL)


async def noop(_context, _number):
    """Do nothing."""


async def work(_context, job, seconds, delay):
    """Take so long, and fail once if there is a delay."""
    if await work_async(job, seconds, delay):
        raise Retry(defer=delay)


class Client:
    """Enqueues and counts."""

    async def open(self):
        """Connect."""
        self.pool = await create_pool(SETTINGS)

    async def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            await self.pool.enqueue_job("noop", number)

    async def enqueue_work(self, calls):
        """Jobs that note the time."""
        for call in calls:
            await self.pool.enqueue_job("work", *call)

    async def left(self):
        """The queue, running jobs included."""
        return await self.pool.zcard("arq:queue")

    async def failed(self):
        """Results that are errors."""
        return sum(not result.success for result in await self.pool.all_job_results())


def worker():
    """One process."""
    logging.disable()
    uvloop.install()
    asyncio.set_event_loop(asyncio.new_event_loop())
    options = {"poll_delay": 0.01} if VARIANT == "fast poll" else {}
    Worker(
        functions=[noop, work],
        redis_settings=SETTINGS,
        max_jobs=CONCURRENCY or 100,
        **options,
    ).run()
