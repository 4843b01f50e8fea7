"""Does a store get slower as it fills up? What is done with 100 jobs in full and small stores.

    python -m tests.databases run --stores redis,postgres,mongo -- python -m benchmarks.growth
        [--stores sqlite,redis] [--levels 1000,100000,1000000] [--rounds 100] [--json FILE]

A store of a level holds as many pending, delayed, done and failed jobs each, all in one queue. One
more, "wide", holds a job in each of 100 regions of each of 1,000 queues. All stores of a kind are
filled first; then each in turn is given 200 jobs, of which 100 are claimed and done and 100 are
claimed and to be tried again in a day, and has 100 pruned that are done, so that whatever else the
machine does strikes them alike. What counts are the ratios of the medians. `--levels 1000,2500000`
compares a small store with one of ten million jobs, in a quarter of an hour.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Iterable
from pathlib import Path
from statistics import median
from typing import TypeVar

import psycopg
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.contenders import Contender
from benchmarks.emptied import PLACES, redis_database
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import Attempt, Claim, NewJob
from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import Again, Dead, Done, Outcome
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from mulligan.stores.contract import Store
from tests.databases import url_variable

WORKER = Worker("bench", queues=("q",), lease=36_000.0)
BODY = b'{"task":"t","args":[1],"kwargs":{}}'
BATCH, CLAIM = 1000, 100
QUEUES, REGIONS = 1000, 100
WIDE = "wide"
DAY = 86_400.0
RETRIES = Lane("q", "*", Priority.RETRY)
STEPS = ("enqueue", "claim", "commit", "retry", "prune")
T = TypeVar("T")
Figures = dict[str, dict[str, float]]


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", default="sqlite,redis,postgres")
    parser.add_argument("--levels", default="1000,100000,1000000")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    levels = [int(level) for level in options.levels.split(",")]
    found: dict[str, Figures] = {}
    for store in options.stores.split(","):
        if store != "sqlite" and url_variable(store) not in os.environ:
            parser.error(f"{url_variable(store)} is not set; see `python -m tests.databases run`")
        with tempfile.TemporaryDirectory() as folder:
            found[store] = asyncio.run(measure(store, levels, options.rounds, Path(folder)))
        Console(width=140).print(table(store, found[store]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


async def measure(kind: str, levels: list[int], rounds: int, folder: Path) -> Figures:
    """Milliseconds of each step in each store, the median of all rounds, and the stores' sizes."""
    stores: dict[str, Store] = {}
    with Progress(transient=True) as progress:
        for number, name in enumerate([*map(str, levels), WIDE], 1):
            place = Contender("mulligan", kind, 0, variant=f"growth {name}")
            url = redis_database(number) if kind == "redis" else PLACES[kind](place, folder)
            store = stores[name] = make_store(url)
            await store.open()
            await store.beat(WORKER, [])
            await (fill_wide(store, progress) if name == WIDE else fill(store, int(name), progress))
        sizes = {name: stored_mb(kind, store.url) for name, store in stores.items()}
        times: dict[str, dict[str, list[float]]] = {
            name: {step: [] for step in STEPS} for name in stores
        }
        bar = progress.add_task(f"{kind}: measuring", total=rounds)
        for number in range(rounds):
            for name, store in stores.items():
                await measure_round(store, number, times[name])
            progress.advance(bar)
    for store in stores.values():
        await store.close()
    return {
        name: {f"{step}_ms": round(1000 * median(each[step]), 3) for step in STEPS}
        | {"stored_mb": sizes[name]}
        for name, each in times.items()
    }


async def measure_round(store: Store, number: int, times: dict[str, list[float]]) -> None:
    """Add the seconds that each step takes with 100 jobs; as many are there again afterwards."""

    async def timed(step: str, work: Awaitable[T]) -> T:
        begin = time.perf_counter()
        done = await work
        times[step].append(time.perf_counter() - begin)
        return done

    await timed("enqueue", enqueue(store, f"more{number}-", CLAIM))
    await enqueue(store, f"again{number}-", CLAIM)
    plan = plan_claim(CLAIM, "default", [("q", Carry())], await store.facts())
    claims = (await timed("claim", store.claim(plan, WORKER))).claims
    await timed("commit", store.commit([Done(claim.lease, b"1") for claim in claims]))
    claims = (await store.claim(plan, WORKER)).claims
    again = [Again(claim.lease, RETRIES, DAY, failure_of(claim)) for claim in claims]
    await timed("retry", store.commit(again))
    await timed("prune", store.prune(0.0, CLAIM))


def stored_mb(kind: str, url: str) -> float:
    """What the store's file or database takes on the disk; 0 where that is not known."""
    if kind == "sqlite":
        path = Path(url.removeprefix("sqlite:///"))
        return round(sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*")) / 1e6)
    if kind == "postgres":
        with psycopg.connect(url) as db:
            row = db.execute("SELECT pg_database_size(current_database())").fetchone()
        return 0 if row is None else round(row[0] / 1e6)
    return 0


async def fill(store: Store, level: int, progress: Progress) -> None:
    """Done, failed, delayed and pending jobs, by the store's own operations."""
    bar = progress.add_task(f"filling: {level:,} of each", total=4 * level)
    for kind in ("done", "failed", "delayed", "pending"):
        for start in range(0, level, BATCH):
            delay = 86_400.0 if kind == "delayed" else 0.0
            await enqueue(store, f"{kind}{start}-", min(BATCH, level - start), delay)
            if kind in ("done", "failed"):
                await finish(store, kind)
            progress.advance(bar, BATCH)


async def fill_wide(store: Store, progress: Progress) -> None:
    """A job in each of many lanes, of other queues and other regions than the worker's."""
    bar = progress.add_task(f"filling: {QUEUES:,} queues, {REGIONS} regions", total=QUEUES)
    for queue in range(QUEUES):
        await store.enqueue(
            [
                NewJob(f"{queue}-{region}", f"q{queue}", "t", BODY, f"r{region}")
                for region in range(REGIONS)
            ]
        )
        progress.advance(bar)
    await enqueue(store, "wide", BATCH)


async def enqueue(store: Store, prefix: str, count: int, delay: float = 0.0) -> None:
    """So many jobs in one batch."""
    await store.enqueue([NewJob(f"{prefix}{n}", "q", "t", BODY, delay=delay) for n in range(count)])


async def finish(store: Store, kind: str) -> None:
    """Claim everything that is pending, and end it."""
    plan = plan_claim(BATCH, "default", [("q", Carry())], await store.facts())
    claims = (await store.claim(plan, WORKER)).claims
    await store.commit(list(ends(claims, kind)))


def ends(claims: Iterable[Claim], kind: str) -> Iterable[Outcome]:
    """How they end."""
    for claim in claims:
        done = kind == "done"
        yield Done(claim.lease, b"1") if done else Dead(claim.lease, failure_of(claim))


def failure_of(claim: Claim) -> Attempt:
    """The attempt, which failed."""
    return Attempt(1, 0, "default", WORKER.id, claim.started_at, "ValueError", "no")


def table(store: str, figures: Figures) -> Table:
    """A line for each store, with its ratio to the smallest."""
    columns = [word for step in STEPS for word in (f"{step}, ms", "times")]
    shown = Table("jobs of each kind", *columns, "MB", title=store)
    least = next(iter(figures.values()))
    for name, found in figures.items():
        label = f"{QUEUES:,} queues, {REGIONS} regions" if name == WIDE else f"{int(name):,}"
        cells = [
            word
            for step in (f"{step}_ms" for step in STEPS)
            for word in (f"{found[step]:.2f}", f"{found[step] / least[step]:.2f}")
        ]
        shown.add_row(label, *cells, f"{found['stored_mb']:,.0f}" if found["stored_mb"] else "")
    return shown


if __name__ == "__main__":
    main()
