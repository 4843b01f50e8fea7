"""`python -m tests.resources.soak --store sqlite --minutes 20`: a worker at work for a long time.

Jobs come steadily and are deleted soon after they are done. Memory and open files must not grow.
"""

# ruff: noqa: T201 - a command-line tool speaks by printing

import argparse
import json
import sys
import threading

from tests.chaos.stand import STORES, place
from tests.resources.backlog import done, producer
from tests.resources.process_sample import Growth, growth_of, watch
from tests.resources.worker_process import until, worker

EVERY = 1.0
BATCH, PAUSE = 50, 0.25
MOST_GROWN_MIB, MOST_MORE_FILES = 4.0, 4


def main() -> None:
    """Soak one store; exit 1 if the worker's memory or its open files grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.resources.soak", description=__doc__)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--minutes", type=float, default=20)
    options = parser.parse_args()
    with place(options.store) as (url, _server):
        growth, jobs = soak(url, 60 * options.minutes, EVERY)
    report = {
        "store": options.store,
        "minutes": options.minutes,
        "jobs": jobs,
        "memory in MiB, first": growth.first,
        "memory in MiB, most": round(growth.most, 2),
        "memory in MiB, last": growth.last,
        "open files": [growth.fewest_files, growth.most_files],
    }
    print(json.dumps(report, indent=2))
    sys.exit(not (has_flat_memory(growth) and has_flat_files(growth)))


def soak(url: str, seconds: float, every: float) -> tuple[Growth, int]:
    """How a worker's memory and files went while jobs came all the time, and how many came."""
    over = threading.Event()
    sent: list[int] = []
    with worker(url) as process, producer(url) as app:
        quick = app.tasks["quick"]

        def produce() -> None:
            while not over.wait(PAUSE):
                sent.append(len(app.enqueue_many(quick.call(n) for n in range(BATCH))))

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            until(lambda: done(app))
            growth = growth_of(list(watch(process.pid, seconds, every)))
        finally:
            over.set()
            thread.join()
    return growth, sum(sent)


def has_flat_memory(growth: Growth) -> bool:
    """Whether memory stayed about the same."""
    return growth.grown < MOST_GROWN_MIB


def has_flat_files(growth: Growth) -> bool:
    """Whether the number of open files stayed about the same."""
    return growth.most_files - growth.fewest_files <= MOST_MORE_FILES


if __name__ == "__main__":
    main()
