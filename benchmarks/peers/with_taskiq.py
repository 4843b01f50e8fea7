"""taskiq on a Redis stream, which is its broker that acknowledges: one process, uvloop, no results.

100 jobs at a time; plain functions run in its threads. Retries: SmartRetryMiddleware with a Redis
schedule source and taskiq's scheduler as a second process, which looks once a second here (once a
minute by default). Left: what the consumer group has not acknowledged, and the schedules. No call
enqueues a batch; in bulk means a hundred at once.
"""

import asyncio
import subprocess
import sys

from jobs import CONCURRENCY, URL, work_async
from redis.asyncio import Redis
from talk import become
from taskiq import SmartRetryMiddleware, TaskiqScheduler
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

DISTRIBUTION = "taskiq"
source = ListRedisScheduleSource(URL)
broker = RedisStreamBroker(URL, consumer_id="0").with_middlewares(
    SmartRetryMiddleware(schedule_source=source)
)
scheduler = TaskiqScheduler(broker, [source])


@broker.task
async def noop(_number: int) -> None:
    """Do nothing."""


@broker.task
def plain_noop(_number: int) -> None:
    """Do nothing in a thread."""


@broker.task(retry_on_error=True, max_retries=3)
async def work(job: str, seconds: float, delay: float) -> None:
    """Take so long, and fail once if there is a delay."""
    if await work_async(job, seconds, delay):
        raise RuntimeError("once")


class Client:
    """Enqueues and counts."""

    async def open(self):
        """Make the stream and its group."""
        self.redis = Redis.from_url(URL)
        await broker.startup()

    async def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            await noop.kiq(number)

    async def enqueue_many(self, count, plain):
        """A hundred at once."""
        task = plain_noop if plain else noop
        for start in range(0, count, 100):
            await asyncio.gather(*(task.kiq(start + each) for each in range(100)))

    async def enqueue_work(self, calls):
        """Jobs that note the time."""
        for call in calls:
            await work.kicker().with_labels(delay=call[2]).kiq(*call)

    async def left(self):
        """Neither read nor acknowledged, or scheduled."""
        [group] = await self.redis.xinfo_groups("taskiq")
        scheduled = await self.redis.keys("schedule:data:*")
        return group["lag"] + group["pending"] + len(scheduled)

    async def failed(self):
        """Nothing is kept of them without a result backend."""
        return 0


def worker():
    """The scheduler beside one worker process."""
    look = ("--update-interval", "1", "--loop-interval", "1")
    subprocess.Popen([sys.executable, "-m", "taskiq", "scheduler", "with_taskiq:scheduler", *look])
    become(
        *("-m", "taskiq", "worker", "with_taskiq:broker", "--workers", "1"),
        *("--max-async-tasks", str(CONCURRENCY or 100), "--log-level", "ERROR"),
    )
