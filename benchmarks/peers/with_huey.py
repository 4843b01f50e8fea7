"""Huey on Redis or SQLite: four threads, no periodic tasks, a scheduler that looks every second.

On SQLite with `fsync`, which is what mulligan promises by default, and without it. A task is taken
off the queue when it starts, and nothing is written when it ends unless it returns something: left
is the queue and the schedule. No call enqueues in bulk.
"""

from huey import RedisHuey, SqliteHuey
from huey.exceptions import RetryTask
from jobs import BYTES, CONCURRENCY, URL, VARIANT, append
from jobs import work as do_work
from talk import become

DISTRIBUTION = "huey"
huey = (
    RedisHuey("bench", url=URL)
    if VARIANT == "redis"
    else SqliteHuey("bench", filename=URL.removeprefix("sqlite:///"), fsync=VARIANT == "fsync")
)


@huey.task()
def noop(_number):
    """Do nothing, or write what was asked for."""
    if BYTES:
        append()


@huey.task(retries=1)
def work(job, seconds, delay):
    """Take so long, and fail once if there is a delay."""
    if do_work(job, seconds, delay):
        raise RetryTask(delay=delay)


class Client:
    """Enqueues and counts."""

    def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            noop(number)

    def enqueue_work(self, calls):
        """Jobs that note the time."""
        for call in calls:
            work(*call)

    def left(self):
        """Queued or scheduled."""
        return huey.pending_count() + huey.scheduled_count()

    def failed(self):
        """Results: these tasks return nothing, so that what is stored is errors."""
        return huey.result_count()


def worker():
    """One process of threads."""
    become(
        *("-m", "huey.bin.huey_consumer", "with_huey.huey", "-k", "thread"),
        *("-w", str(CONCURRENCY or 4), "-n", "-q"),
    )
