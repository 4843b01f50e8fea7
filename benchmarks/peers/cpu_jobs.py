"""Jobs that hold the processor, in the environment of the peer that BENCH_PEER names.

    python cpu_jobs.py enqueue COUNT      that many jobs that compute
    python cpu_jobs.py pick-up COUNT      jobs that note when they start, one every 20 ms
    python cpu_jobs.py worker             become the peer's worker, with two processes

All on Redis. Celery: prefork with two children, as `with_celery.py` has it. RQ: a pool of two
workers, each of which forks for each job, as by default. mulligan: one worker with two children.
"""

import os
import sys
import time
from pathlib import Path

from talk import become

PEER, URL = os.environ["BENCH_PEER"], os.environ["BENCH_URL"]
LOOPS = int(os.environ["BENCH_LOOPS"])
# Appended to by all processes; a line so short is written as a whole.
NOTES = os.open(Path(os.environ["BENCH_FOLDER"]) / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
PACE = 0.02


def note(what, number):
    """Write down what happens now."""
    os.write(NOTES, f"{what} {number} {time.time():.6f}\n".encode())


def compute(number):
    """Hold the processor with pure Python."""
    total = 0
    for each in range(LOOPS):
        total += each * each % 7
    note("done", number)


if PEER == "mulligan":
    from mulligan import Mulligan

    app = Mulligan(URL)
    task = app.task(pool="process", queue="compute")(compute)

    @app.task(queue="pick-up")
    async def pick_up(number):
        """Note when it starts."""
        note("start", number)

    def enqueue(count):
        """All at once."""
        app.enqueue_many([task.call(number) for number in range(count)])

    def worker():
        """One worker with two child processes."""
        become(
            "-m", "mulligan", "worker", "cpu_jobs:app", "--pool-size", "2", "--log-level", "error"
        )

elif PEER == "celery":
    from celery import Celery

    app = Celery("cpu_jobs", broker=URL)
    app.conf.update(broker_connection_retry_on_startup=True, task_ignore_result=True)
    task = app.task(compute)

    def enqueue(count):
        """One by one: no call enqueues in bulk."""
        for number in range(count):
            task.delay(number)

    def worker():
        """Prefork with two children."""
        become(
            *("-m", "celery", "-A", "cpu_jobs", "worker", "--pool", "prefork", "-c", "2"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"),
        )

else:
    from redis import Redis
    from rq import Queue

    def enqueue(count):
        """All at once."""
        queue = Queue(connection=Redis.from_url(URL))
        queue.enqueue_many([Queue.prepare_data("cpu_jobs.compute", (n,)) for n in range(count)])

    def worker():
        """A pool of two workers."""
        become("-m", "rq.cli", "worker-pool", "--url", URL, "--quiet", "--num-workers", "2")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["worker"]:
            worker()
        case ["enqueue", count]:
            enqueue(int(count))
        case ["pick-up", count]:
            for number in range(int(count)):
                note("asked", number)
                pick_up.enqueue(number)
                time.sleep(PACE)
