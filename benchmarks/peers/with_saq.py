"""SAQ on Redis or PostgreSQL: 100 jobs at a time, uvloop, its default timers.

Results are kept for ten minutes, as by default. Left: what the queue counts as incomplete. A plain
function runs in a thread. No call enqueues a batch; in bulk means a hundred at once.
"""

import asyncio
import logging

import uvloop
from jobs import CONCURRENCY, URL, work_async
from saq import Queue, Status, Worker

DISTRIBUTION = "saq"


async def noop(_context, *, number):
    """Do nothing."""


def plain_noop(_context, *, number):
    """Do nothing in a thread."""


async def work(_context, *, job, seconds, delay):
    """Take so long, and fail once if there is a delay."""
    if await work_async(job, seconds, delay):
        raise RuntimeError("once")


class Client:
    """Enqueues and counts."""

    async def open(self):
        """Connect; PostgreSQL's tables are made by it."""
        self.queue = Queue.from_url(URL)
        await self.queue.connect()

    async def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            await self.queue.enqueue("noop", number=number)

    async def enqueue_work(self, calls):
        """Jobs that note the time."""
        for job, seconds, delay in calls:
            await self.queue.enqueue(
                "work",
                job=job,
                seconds=seconds,
                delay=delay,
                retries=2,
                retry_delay=delay or 0.0,
            )

    async def enqueue_many(self, count, plain):
        """A hundred at once."""
        name = "plain_noop" if plain else "noop"
        for start in range(0, count, 100):
            await asyncio.gather(
                *(self.queue.enqueue(name, number=start + each) for each in range(100))
            )

    async def left(self):
        """Queued, scheduled or running."""
        return await self.queue.count("incomplete")

    async def failed(self):
        """Kept with their errors."""
        ended = [Status.FAILED, Status.ABORTED]
        return sum([1 async for _ in self.queue.iter_jobs(ended)])


def worker():
    """One process."""
    logging.disable()
    uvloop.install()
    asyncio.run(main())


async def main():
    """Work until a signal."""
    queue = Queue.from_url(URL)
    await queue.connect()
    await Worker(queue, [noop, plain_noop, work], concurrency=CONCURRENCY or 100).start()
