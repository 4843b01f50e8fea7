"""Celery on Redis: no result backend, as by default; no gossip, mingle or heartbeat.

Pools: prefork with two children, or four threads; a prefetch of 4 a child, as by default. Messages
are acknowledged before they run, as by default. Left: messages in the list and not acknowledged.
Retries: `self.retry(countdown=...)`, which the worker keeps in memory. No call enqueues in bulk.
Its rate limit is one of each worker.
"""

import time

from celery import Celery
from jobs import CONCURRENCY, RATE, URL, VARIANT
from jobs import work as do_work
from redis import Redis
from talk import become

DISTRIBUTION = "celery"
app = Celery("with_celery", broker=URL)
app.conf.update(broker_connection_retry_on_startup=True, task_ignore_result=True)


@app.task
def noop(_number):
    """Do nothing."""


@app.task(bind=True, max_retries=1, rate_limit=f"{RATE}/s" if RATE else None)
def work(self, job, seconds, delay):
    """Take so long, and fail once if there is a delay."""
    if do_work(job, seconds, delay):
        raise self.retry(countdown=delay)


class Client:
    """Enqueues and counts."""

    def __init__(self):
        self.redis = Redis.from_url(URL)

    def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            noop.delay(number)

    def enqueue_work(self, calls):
        """Jobs that note the time."""
        for call in calls:
            work.delay(*call)

    def left(self):
        """Messages."""
        with self.redis.pipeline() as pipe:
            return sum(pipe.llen("celery").hlen("unacked").execute())

    def failed(self):
        """Nothing is kept of them without a result backend."""
        return 0


def worker():
    """One worker; its pool may be of processes."""
    children = CONCURRENCY or (4 if VARIANT == "threads" else 2)
    become(
        *("-m", "celery", "-A", "with_celery", "worker", "--pool", VARIANT, "-c", str(children)),
        *("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"),
        *("-n", f"bench-{time.time()}@%h"),
    )
