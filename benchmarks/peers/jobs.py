"""What the jobs of every Python peer do, in the peer's own environment: note when, and fail once.

Notes go to a file that the harness reads, so that all are timed alike whatever their store.
"""

import asyncio
import os
import time
from pathlib import Path

URL = os.environ["BENCH_URL"]
VARIANT = os.environ["BENCH_VARIANT"]
FOLDER = Path(os.environ["BENCH_FOLDER"])
# 0: whatever suits the peer best
CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])
# how many may start in a second, and how many may run at a time, over all workers; 0: any number
RATE = int(os.environ.get("BENCH_RATE", "0"))
BURST = int(os.environ.get("BENCH_BURST", "0")) or None
PERMITS = int(os.environ.get("BENCH_PERMITS", "0"))
# how many bytes each no-op appends to a file; 0: none
BYTES = int(os.environ.get("BENCH_BYTES", "0"))
WRITTEN = os.open(FOLDER / "written", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
# appended to by all processes; a line so short is written as a whole
NOTES = os.open(FOLDER / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def work(job, seconds, delay):
    """Take so long; true if this attempt must now fail, to be retried after the delay."""
    note(job, "start")
    time.sleep(seconds)
    return fails(job, delay)


async def work_async(job, seconds, delay):
    """As `work`, without blocking the loop."""
    note(job, "start")
    await asyncio.sleep(seconds)
    return fails(job, delay)


def append():
    """Append some bytes to a file that all processes share."""
    os.write(WRITTEN, b"x" * BYTES)


def fails(job, delay):
    """Note how the attempt ends: the first one of a job with a delay fails."""
    fails = bool(delay) and first_time(job)
    note(job, "fail" if fails else "end")
    return fails


def first_time(job):
    """Whether no process has asked for this job before."""
    try:
        os.close(os.open(FOLDER / f"seen-{job}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def note(job, what):
    """Write down what happens to a job now."""
    os.write(NOTES, f"{job} {what} {time.time():.6f}\n".encode())
