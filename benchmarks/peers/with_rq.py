"""RQ on Redis: a fork for each job, as by default, or its SimpleWorker; with its scheduler.

Four at a time is a pool of four workers. Results are kept for 500 s, as by default. Left: the
queue, and what its registries call started or scheduled. RQ keeps due times in whole
seconds, so that a retry may be early.
"""

import logging

from jobs import CONCURRENCY, URL, VARIANT
from jobs import work as do_work
from redis import Redis
from rq import Queue, Retry
from talk import become

DISTRIBUTION = "rq"


def noop(_number):
    """Do nothing."""


def work(job, seconds, delay):
    """Take so long, and fail once if there is a delay."""
    if do_work(job, seconds, delay):
        raise RuntimeError("once")


class Client:
    """Enqueues and counts."""

    def __init__(self):
        logging.disable()
        self.queue = Queue(connection=Redis.from_url(URL))

    def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            self.queue.enqueue(noop, number)

    def enqueue_many(self, count, _plain):
        """In bulk."""
        calls = [Queue.prepare_data(noop, (number,)) for number in range(count)]
        for start in range(0, count, 1000):
            self.queue.enqueue_many(calls[start : start + 1000])

    def enqueue_work(self, calls):
        """Jobs that note the time."""
        self.queue.enqueue_many(
            [
                Queue.prepare_data(work, call, retry=Retry(1, [call[2]]) if call[2] else None)
                for call in calls
            ]
        )

    def left(self):
        """Queued, started or scheduled."""
        started, later = self.queue.started_job_registry, self.queue.scheduled_job_registry
        return self.queue.count + started.get_job_count(cleanup=False) + len(later)

    def failed(self):
        """The registry of failed jobs."""
        return len(self.queue.failed_job_registry)


def worker():
    """One worker, or a pool of several."""
    kind = "rq.worker.SimpleWorker" if VARIANT == "simple" else "rq.worker.Worker"
    options = ("--url", URL, "--worker-class", kind, "--quiet")
    if CONCURRENCY:
        become("-m", "rq.cli", "worker-pool", *options, "--num-workers", str(CONCURRENCY))
    become("-m", "rq.cli", "worker", *options, "--with-scheduler")
