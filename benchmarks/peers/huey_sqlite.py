"""Huey on SQLite, as fast as its settings allow: no result store, no periodic tasks.

Run by `benchmarks/compare.py` with the Python of Huey's own venv; prints its figures as JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from huey import SqliteHuey

PATH = os.environ.get("HUEY_BENCH_FILE", "")
CONSUMER = (
    *(sys.executable, "-m", "huey.bin.huey_consumer", "huey_sqlite.huey"),
    *("-k", "thread", "-n", "-q"),
)
# As durable as mulligan is by default, unless told otherwise.
FSYNC = os.environ.get("HUEY_BENCH_FSYNC") != "off"
huey = SqliteHuey(filename=PATH or ":memory:", results=False, fsync=FSYNC)


@huey.task()
def noop(_number):
    """Do nothing."""


def consumer(workers):
    """A consumer process with so many threads."""
    return subprocess.Popen(
        [*CONSUMER, "-w", str(workers)],
        cwd=Path(__file__).parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def drain(count, workers):
    """Tasks per second from the first to the last, counted in the queue's table."""
    for number in range(count):
        noop(number)
    process = consumer(workers)
    try:
        # Looking more often than this slows the consumer down.
        while huey.pending_count() == count:
            time.sleep(0.02)
        first_left, begin = huey.pending_count(), time.perf_counter()
        while huey.pending_count():
            time.sleep(0.05)
        return first_left / (time.perf_counter() - begin)
    finally:
        process.terminate()
        process.wait()


def main():
    """Measure, and print."""
    count = int(sys.argv[1])
    begin = time.perf_counter()
    for number in range(1000):
        noop(number)
    rate = 1000 / (time.perf_counter() - begin)
    huey.storage.flush_all()
    print(
        json.dumps(
            {
                "enqueue_one_per_s": rate,
                "drain_per_s": max(drain(count, workers) for workers in (1, 4)),
            }
        )
    )


if __name__ == "__main__":
    if PATH:
        # Under its own name, so that the consumer knows the task by the same one.
        import huey_sqlite

        huey_sqlite.main()
    else:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HUEY_BENCH_FILE"] = str(Path(folder) / "huey.db")
            os.execv(sys.executable, [sys.executable, *sys.argv])
