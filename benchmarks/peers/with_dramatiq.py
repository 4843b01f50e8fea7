"""dramatiq on Redis: one process of eight threads and the default middleware.

Messages are deleted when they are acknowledged; left are all messages of the queue and of its
delay queue, failed its dead letters. No call enqueues in bulk.
"""

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import Retry
from jobs import CONCURRENCY, URL
from jobs import work as do_work
from talk import become

DISTRIBUTION = "dramatiq"
broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(_number):
    """Do nothing."""


@dramatiq.actor(max_retries=1)
def work(job, seconds, delay):
    """Take so long, and fail once if there is a delay."""
    if do_work(job, seconds, delay):
        raise Retry(delay=int(1000 * delay))


class Client:
    """Enqueues and counts."""

    def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            noop.send(number)

    def enqueue_work(self, calls):
        """Jobs that note the time."""
        for call in calls:
            work.send(*call)

    def left(self):
        """Messages that are not acknowledged."""
        with broker.client.pipeline() as pipe:
            pipe.hlen("dramatiq:default.msgs").hlen("dramatiq:default.DQ.msgs")
            return sum(pipe.execute())

    def failed(self):
        """Dead letters."""
        return broker.client.zcard("dramatiq:default.XQ")


def worker():
    """One process of threads."""
    become("-m", "dramatiq", "with_dramatiq", "-p", "1", "-t", str(CONCURRENCY or 8))
