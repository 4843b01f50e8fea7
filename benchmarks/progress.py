"""What progress costs: a worker's throughput beside 100 jobs that report ten times a second.

    python -m benchmarks.progress [STORE_URL ...] [--rounds 5] [--jobs 20000]

Without URLs: an empty SQLite file, and the servers that MULLIGAN_TEST_*_URL name. A worker runs 100
jobs that last, and drains others meanwhile; in turn the 100 report their progress, or do not. Told
are the medians of the drained jobs a second, and of their ratios, round by round.
"""

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time

from benchmarks.result_wait import known_stores
from mulligan import Mulligan, current_job

REPORTING, EVERY = 100, 0.1
app = Mulligan(os.environ.get("MULLIGAN_BENCH_URL", "memory://"))
reports = os.environ.get("MULLIGAN_BENCH_REPORTS") == "yes"


@app.task(queue="long")
async def last(done: int) -> None:
    """Goes on until it is killed, and perhaps says how far it is."""
    while True:
        await asyncio.sleep(EVERY)
        done += 1
        if reports:
            current_job().progress(done, of=1_000_000)


@app.task(queue="quick")
async def noop(number: int) -> None:
    """One of those that are drained."""


def main():
    """Measure each store, and print a line about it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stores", nargs="*", default=["sqlite", "redis", "postgres"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=20_000)
    options = parser.parse_args()
    print(f"{'store':12}{'ping ms':>9}{'silent':>9}{'reporting':>11}{'ratio':>7}")
    for store in options.stores:
        rounds = [measure(store, number, options.jobs) for number in range(options.rounds)]
        pings, silent, reporting = zip(*rounds, strict=True)
        ratio = statistics.median(b / a for a, b in zip(silent, reporting, strict=True))
        told = [statistics.median(values) for values in (pings, silent, reporting)]
        print(f"{store:12}{told[0]:9.2f}{told[1]:9.0f}{told[2]:11.0f}{ratio:7.2f}", flush=True)


def measure(store, number, jobs):
    """A ping in milliseconds, and how many jobs a second were drained in silence, and beside."""
    found = {}
    for said in ("no", "yes") if number % 2 else ("yes", "no"):
        url = next(url for url in known_stores() if url.startswith(store))
        environment = {**os.environ, "MULLIGAN_BENCH_URL": url, "MULLIGAN_BENCH_REPORTS": said}
        command = [sys.executable, "-m", "mulligan", "worker", "benchmarks.progress:app"]
        command += ["--concurrency", "200", "--log-level", "error"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, env=environment, **quiet) as worker:
            try:
                found[said] = drained(Mulligan(url), jobs)
            finally:
                worker.send_signal(signal.SIGKILL)
    return found["no"][0], found["no"][1], found["yes"][1]


def drained(producer, jobs):
    """A ping in milliseconds, and jobs a second, once the long ones run."""
    for task in (last, noop):
        producer.task(name=task.name, queue=task.placement.queue)(task.function)
    long = producer.enqueue_many(producer.tasks[last.name].call(n) for n in range(REPORTING))
    while any(job.info().status != "processing" for job in long):
        time.sleep(0.05)
    began = time.perf_counter()
    long[0].info()
    ping = (time.perf_counter() - began) * 1000
    quick = producer.enqueue_many(producer.tasks[noop.name].call(n) for n in range(jobs))
    while quick[-1].info().status != "done":
        time.sleep(0.05)
    ends = [job.info().ended_at for job in quick[-200:]]
    rate = jobs / (max(ends) - quick[0].info().started_at)
    producer.close()
    return ping, rate


if __name__ == "__main__":
    main()
