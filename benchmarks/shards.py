"""What a job costs in CPU, by part, over 1, 2 and 4 shards: producer, servers and worker.

    python -m benchmarks.shards [--stores redis,postgres] [--shards 1,2,4] [--jobs 20000]
        [--rounds 3] [--idle 20] [--json FILE]

One server has all shards, each in a prefix or schema of its own, so that what is counted is all
that servers do for a job. Numbers of shards are measured in turn, round by round, each by a
producer and a worker of their own, and what counts are the medians. CPU time is user and system
time, in microseconds per job: it does not depend on what else the machine does as a rate does.

Then a worker without work stands before so many shards (--idle seconds; 0 leaves it out), and the
CPU time that it and the servers use in a second is told.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from mulligan import Mulligan, Settings
from mulligan.app.worker import new_worker, work
from tests.databases import PostgresServer, RedisServer, Server
from tests.databases._server import family

ROOT = Path(__file__).parent.parent
SERVERS: dict[str, type[Server]] = {"redis": RedisServer, "postgres": PostgresServer}
CONCURRENCY = 100
FEW = 100
PARTS = ("producer", "server, enqueue", "worker", "server, run")
Costs = dict[str, float]


def main() -> None:
    """Measure, and print a table for each store."""
    if sys.argv[1:2] == ["part"]:
        part(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stores", default="redis")
    parser.add_argument("--shards", default="1,2,4")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {}
    for store in options.stores.split(","):
        if store not in SERVERS:
            parser.error(f"store {store!r} must be one of {', '.join(SERVERS)}")
        counts = [int(each) for each in options.shards.split(",")]
        found[store] = measure(store, counts, options.jobs, options.rounds, options.idle)
        show(store, found[store])
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def measure(store: str, counts: list[int], jobs: int, rounds: int, idle: float) -> dict[int, Costs]:
    """The medians of each part, in microseconds a job, by number of shards."""
    seen: dict[int, list[Costs]] = {count: [] for count in counts}
    place = itertools.count()
    with SERVERS[store]() as server:
        for turn in range(rounds):
            for count in counts[turn % len(counts) :] + counts[: turn % len(counts)]:
                seen[count].append(costs(url_of(server, next(place), count), server, jobs))
        figures = {
            count: {name: round(median(each[name] for each in rows), 1) for name in PARTS}
            for count, rows in seen.items()
        }
        for count in counts if idle else ():
            url = url_of(server, next(place), count)
            before, began = cpu(server), time.monotonic()
            told, passed = run("idle", url, str(idle)), time.monotonic() - began
            figures[count]["idle worker, ms/s"] = round(1000 * told / idle, 2)
            figures[count]["idle server, ms/s"] = round(1000 * (cpu(server) - before) / passed, 2)
    return figures


def url_of(server: Server, place: int, count: int) -> str:
    """An app with so many shards on the server, in a place where nobody else is."""
    if isinstance(server, RedisServer):
        return f"{server.url}?prefix=p{place}&shards={count}"
    return " ".join(f"{server.url}?schema=p{place}s{shard}" for shard in range(count))


def costs(url: str, server: Server, jobs: int) -> Costs:
    """Each part of a job, where many are enqueued by one process and run by another.

    What the server does for processes that start and end is not of any job: it is seen by a few
    jobs, and taken away.
    """
    run("prepare", url, "0")
    few = parts(url, server, FEW)
    many = parts(url, server, FEW + jobs)
    each = [1_000_000 * (two - one) / jobs for one, two in zip(few, many, strict=True)]
    return dict(zip(PARTS, each, strict=True))


def parts(url: str, server: Server, jobs: int) -> tuple[float, float, float, float]:
    """CPU seconds of the producer, the server, the worker, and the server again."""
    start = cpu(server)
    producer = run("produce", url, str(jobs))
    between = cpu(server)
    worker = run("work", url, str(jobs))
    return producer, between - start, worker, cpu(server) - between


def run(what: str, url: str, number: str) -> float:
    """CPU seconds of a process that does this, as it counts them itself."""
    command = [sys.executable, "-m", "benchmarks.shards", "part", what, url, number]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode:
        raise SystemExit(told.stderr)
    return float(told.stdout)


def cpu(server: Server) -> float:
    """CPU seconds that the server, and processes of its own that have ended, have used."""
    ticks = 0
    for member in [each for pid in server.pids for each in family(pid)]:
        with contextlib.suppress(OSError):  # it ended while we looked
            stat = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, stat[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


# -- what the measured processes do --------------------------------------------------------------


def part(what: str, url: str, number: str) -> None:
    """Do one part, and print the CPU seconds that it took."""
    app = Mulligan(url, settings=Settings(concurrency=CONCURRENCY))
    if what == "prepare":
        app.configure()
    deeds = {"prepare": nothing, "produce": produce, "work": drain, "idle": stand}
    print(asyncio.run(deeds[what](app, float(number))))
    app.close()


async def nothing(_app: Mulligan, _number: float) -> float:
    """What is prepared costs the others nothing."""
    return 0.0


async def produce(app: Mulligan, jobs: float) -> float:
    """Enqueue so many."""
    noop = task_of(app, Counter(0))
    async with app.connected():
        before = used()
        await app.aenqueue_many([noop.call(each) for each in range(int(jobs))])
        return used() - before


async def drain(app: Mulligan, jobs: float) -> float:
    """Run so many."""
    counter = Counter(int(jobs))
    task_of(app, counter)
    async with working(app):
        before = used()
        await asyncio.wait_for(counter.all_ran.wait(), 120)
    return used() - before


async def stand(app: Mulligan, seconds: float) -> float:
    """Have no work for so long, once the worker has come to rest."""
    task_of(app, Counter(1))
    async with working(app):
        await asyncio.sleep(3)
        before = used()
        await asyncio.sleep(seconds)
        return used() - before


class Counter:
    """How many jobs have yet to run."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.all_ran = asyncio.Event()

    def ran(self) -> None:
        """One more has."""
        self.left -= 1
        if self.left == 0:
            self.all_ran.set()


def task_of(app: Mulligan, counter: Counter) -> Any:
    """A task that does nothing but count."""

    @app.task(name="noop")
    async def noop(_: int) -> None:
        counter.ran()

    return noop


@asynccontextmanager
async def working(app: Mulligan) -> AsyncIterator[None]:
    """A worker of the app, which has written all that it ran when this is over."""
    engines: list[Any] = []
    running = asyncio.ensure_future(work(app, new_worker(app), engines.append))
    yield
    engines[0].stop()
    await running


def used() -> float:
    """CPU seconds of this process."""
    told = resource.getrusage(resource.RUSAGE_SELF)
    return told.ru_utime + told.ru_stime


def show(store: str, figures: dict[int, Costs]) -> None:
    """A line for each number of shards, and the growth of what servers do by each doubling."""
    names = list(next(iter(figures.values())))
    print(f"{store}, CPU in µs a job\n{'shards':>8}" + "".join(f"{name:>20}" for name in names))
    before = None
    for count, each in figures.items():
        total = each["server, enqueue"] + each["server, run"]
        grown = "" if before is None else f"   servers {total / before - 1:+.1%}"
        print(f"{count:8}" + "".join(f"{each[name]:20}" for name in names) + grown)
        before = total


if __name__ == "__main__":
    main()
