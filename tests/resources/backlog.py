"""`python -m tests.resources.backlog --store redis`: a worker before a million waiting jobs.

Its jobs are slow, so that the backlog stays. Its memory must not depend on how many wait.
"""

# ruff: noqa: T201 - a command-line tool speaks by printing

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mulligan import Mulligan
from mulligan.stores.contract import Store
from tests.chaos.stand import STORES, place
from tests.resources.process_sample import Growth, growth_of, watch
from tests.resources.worker_process import until, worker

BATCH = 10_000
EVERY = 0.25
# What the interpreter, the driver and twenty running jobs take, with room.
MOST_MIB, MOST_GROWN_MIB = 160.0, 8.0


def main() -> None:
    """Fill a store, let a worker work, and look at its memory; exit 1 if it grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.resources.backlog", description=__doc__)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    with place(options.store) as (url, _server):
        began = time.monotonic()
        fill(url, options.jobs)
        filled = time.monotonic() - began
        growth = watched(url, options.seconds)
    report = {
        "store": options.store,
        "jobs": options.jobs,
        "seconds to enqueue": round(filled, 1),
        "memory in MiB, first": growth.first,
        "memory in MiB, most": round(growth.most, 2),
        "memory in MiB, last": growth.last,
        "open files": [growth.fewest_files, growth.most_files],
    }
    print(json.dumps(report, indent=2))
    sys.exit(not is_bounded(growth))


def fill(url: str, jobs: int) -> None:
    """Enqueue slow jobs."""
    with producer(url) as app:
        slow = app.tasks["slow"]
        for start in range(0, jobs, BATCH):
            count = min(BATCH, jobs - start)
            app.enqueue_many(slow.call(number) for number in range(start, start + count))


def watched(url: str, seconds: float) -> Growth:
    """How the memory of a worker went."""
    with worker(url) as process, producer(url) as app:
        until(lambda: done(app))
        return growth_of(list(watch(process.pid, seconds, EVERY)))


def is_bounded(growth: Growth) -> bool:
    """Whether memory stayed where it was."""
    return growth.most < MOST_MIB and growth.grown < MOST_GROWN_MIB


@contextmanager
def producer(url: str) -> Iterator[Mulligan]:
    """The app on this store, in this process."""
    from tests.resources import app as module  # noqa: PLC0415 - its URL is given here

    mine = Mulligan(url, settings=module.app.settings)
    mine.task(module.slow.function)
    mine.task(module.quick.function)
    try:
        yield mine
    finally:
        mine.close()


def done(app: Mulligan) -> int:
    """How many jobs have ended."""

    async def count(store: Store) -> int:
        return sum((await store.stats()).ended.values())

    return app.run(lambda: app.access.acall(count))


if __name__ == "__main__":
    main()
