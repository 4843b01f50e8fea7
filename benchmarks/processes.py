"""What a second process adds: jobs of 200 µs of Python, by one worker process and by two.

    python -m benchmarks.processes [STORE_URL] [--rounds 3] [--jobs 20000]

Without a URL: the Redis server that MULLIGAN_TEST_REDIS_URL names, which must be empty. In turn
`mulligan worker --processes 1` and `--processes 2` drain the same jobs; timed from when a tenth of
them is done, so that starting counts for neither, until none is left. Told are the medians, and
that of the ratios, round by round.
"""

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from redis import Redis

from mulligan import Mulligan
from mulligan.core.lane import Lane, Priority

JOB = 200e-6
CALIBRATED_BY = 100_000
ENDED_WITHIN = 20.0
READY = Lane("default", "default", Priority.NORMAL)
ROOT = Path(__file__).parents[1]
app = Mulligan(os.environ.get("MULLIGAN_BENCH_URL", "memory://"))


@app.task
async def compute(turns: int) -> None:
    """Hold the processor for so many turns."""
    spin(turns)


def spin(turns: int) -> int:
    """Pure Python, as long as it is told."""
    total = 0
    for each in range(turns):
        total += each * each % 7
    return total


def calibrated() -> int:
    """How many turns take as long as a job should, as things are now."""
    began = time.process_time()
    spin(CALIBRATED_BY)
    return int(CALIBRATED_BY * JOB / (time.process_time() - began))


async def drained(url: str, processes: int, jobs: int, turns: int) -> float:
    """Jobs a second, drained by so many processes."""
    mine = Mulligan(url)
    mine.task(name=compute.name)(compute.function)
    task = mine.tasks[compute.name]
    async with mine.connected():
        await mine.aconfigure()
        await mine.aenqueue_many(task.call(turns) for _ in range(jobs))

        async def left() -> int:
            ready = await mine.access.acall(lambda store: store.depth(READY, jobs))
            if ready:
                return int(ready)
            stats = await mine.access.acall(lambda store: store.stats())
            return sum(lane.ready for lane in stats.lanes) + sum(stats.running.values())

        command = ["-m", "mulligan", "worker", f"{__spec__.name}:app", "--log-level", "error"]
        worker = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs here
            [sys.executable, *command, "--processes", str(processes)],
            env=os.environ | {"MULLIGAN_BENCH_URL": url},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # as the processes of a group have: Linux shares out by session
        )
        try:
            while (begun_with := await left()) > jobs * 0.9:  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.01)
            began = time.perf_counter()
            while await left():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return begun_with / (time.perf_counter() - began)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(ENDED_WITHIN)


def main() -> None:
    """Measure in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?", default=os.environ.get("MULLIGAN_TEST_REDIS_URL"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=20_000)
    options = parser.parse_args()
    if options.url is None or Redis.from_url(options.url).dbsize():
        raise SystemExit(f"{options.url} is no empty Redis database; give the URL of one")
    turns, rates = calibrated(), []
    for _ in range(options.rounds):
        pair = []
        for processes in (1, 2):
            pair.append(asyncio.run(drained(options.url, processes, options.jobs, turns)))
            Redis.from_url(options.url).flushdb()
        rates.append(pair)
    one, two = (statistics.median(each) for each in zip(*rates, strict=True))
    times = statistics.median(two / one for one, two in rates)
    print(f"one process {one:,.0f} jobs/s, two {two:,.0f} jobs/s, {times:.2f} times")


if __name__ == "__main__":
    main()
