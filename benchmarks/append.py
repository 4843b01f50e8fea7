"""Drains of jobs that do a little: each appends 16 bytes to a file. SQLite, beside Huey, in turn.

    python -m benchmarks.append [--jobs 30000] [--rounds 3] [--bytes 16]

mulligan runs as many coroutines, and as many plain functions in threads; Huey a tenth as many,
since it takes longer. Every drain is of one worker process on a new file. Counted is what stands
in the file: each job must have written once.
"""

import argparse
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.contender import Driver
from benchmarks.contenders import Contender
from benchmarks.measures import drain

HUEY = "huey"
KINDS = {
    "mulligan, coroutines": Contender("mulligan", "sqlite", 0),
    "mulligan, plain functions": Contender("mulligan", "sqlite", 0),
    HUEY: Contender("huey", "sqlite", 0, variant="fsync", bulk=False),
    f"{HUEY}, no fsync": Contender("huey", "sqlite", 0, variant="no fsync", bulk=False),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=16)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {name: [] for name in KINDS}
    for _ in range(options.rounds):
        for name, contender in KINDS.items():
            jobs = options.jobs // 10 if contender.peer == HUEY else options.jobs
            plain = name.endswith("plain functions")
            rates[name].append(drained(contender, jobs, options.bytes, plain=plain))
    theirs = median(rates[HUEY])
    shown = Table("", "jobs/s, median", "least", "most", "times Huey", title="SQLite")
    for name, each in rates.items():
        figures = (median(each), min(each), max(each))
        cells = [f"{figure:,.0f}" for figure in figures]
        shown.add_row(name, *cells, f"{median(each) / theirs:.1f}")
    Console().print(shown)


def drained(contender: Contender, jobs: int, size: int, *, plain: bool) -> float:
    """Jobs per second of one worker."""
    driver = Driver(contender, {"BENCH_BYTES": str(size)})
    try:
        driver.work("first")
        driver.fill(jobs, plain=plain)
        rate = drain(driver, 1)
        written = (driver.folder / "written").stat().st_size
        if written != jobs * size:
            raise RuntimeError(f"{written:,} bytes were written by {jobs:,} jobs of {size}")
        return rate
    finally:
        driver.close()


if __name__ == "__main__":
    main()
