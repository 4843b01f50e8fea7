"""How long does a server take to say what a large store is doing?

    python -m tests.databases run --stores redis,postgres,mongo -- python -m benchmarks.status
        [--stores memory,sqlite,redis] [--jobs 1000000] [--rounds 50] [--json FILE]

Each store gets so many pending jobs. Then `/api/status` and `/api/overview` are asked, without a
network: the first time, when the store is counted, and again, twenty times a second.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.contenders import Contender
from benchmarks.emptied import PLACES, redis_database
from benchmarks.growth import BATCH, enqueue
from mulligan import Mulligan
from mulligan.server.application import make_application
from mulligan.server.guard import Guard
from mulligan.server.service import Service
from mulligan.stores import make_store
from tests.databases import url_variable

PATHS = ("/api/status", "/api/overview")
EVERY = 0.05
WITHOUT_SERVER = ("memory", "sqlite")
Figures = dict[str, dict[str, float]]


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", default="memory,sqlite,redis,postgres,mongo")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Figures] = {}
    for store in options.stores.split(","):
        if store not in WITHOUT_SERVER and url_variable(store) not in os.environ:
            parser.error(f"{url_variable(store)} is not set; see `python -m tests.databases run`")
        with tempfile.TemporaryDirectory() as folder:
            url = place(store, Path(folder))
            found[store] = asyncio.run(measure(url, options.jobs, options.rounds))
        Console().print(table(f"{store}, {options.jobs:,} pending", found[store]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def place(kind: str, folder: Path) -> str:
    """The URL of an empty store."""
    if kind == "memory":
        return "memory://"
    if kind == "redis":
        return redis_database(1)
    return PLACES[kind](Contender("mulligan", kind, 0, variant="status"), folder)


async def measure(url: str, jobs: int, rounds: int) -> Figures:
    """Milliseconds of an answer on each path: the first, the median and the slowest of others."""
    store = make_store(url)
    await store.open()
    with Progress(transient=True) as progress:
        bar = progress.add_task("filling", total=jobs)
        for start in range(0, jobs, BATCH):
            await enqueue(store, f"{start}-", min(BATCH, jobs - start))
            progress.advance(bar, BATCH)
    figures: Figures = {}
    for path in PATHS:
        service = Service(store, Mulligan("memory://"), Guard(None), declares=False)
        transport = httpx.ASGITransport(make_application(service), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = await ask(client, path)
            later = []
            for _ in range(rounds):
                await asyncio.sleep(EVERY)
                later.append(await ask(client, path))
        service.stop()
        figures[path] = {"first_ms": first, "median_ms": median(later), "slowest_ms": max(later)}
    await store.close()
    return figures


async def ask(client: httpx.AsyncClient, path: str) -> float:
    """Milliseconds of one answer."""
    begin = time.perf_counter()
    (await client.get(path)).raise_for_status()
    return round(1000 * (time.perf_counter() - begin), 3)


def table(title: str, figures: Figures) -> Table:
    """A line for each path."""
    shown = Table("path", "first, ms", "median, ms", "slowest, ms", title=title)
    for path, found in figures.items():
        shown.add_row(path, *(f"{value:.1f}" for value in found.values()))
    return shown


if __name__ == "__main__":
    main()
