"""PostgreSQL: do tables grow at a constant backlog, and what does NOTIFY cost?

    python benchmarks/postgres_growth.py URL [--jobs 1000000]

Jobs go through a backlog of 10,000 in batches of 1,000, ended ones are pruned at once. The sizes
of the tables are read after 50,000 jobs and at the end. Then 32 clients enqueue single jobs, with
nobody waiting (no NOTIFY is sent) and with a worker waiting each time (one is).
"""

import argparse
import asyncio
import json
import time
from urllib.parse import parse_qsl, urlencode, urlsplit

import psycopg
from rich.progress import Progress

from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import NewJob
from mulligan.core.outcome import Done
from mulligan.core.worker import Worker
from mulligan.stores import make_store
from mulligan.stores.contract import Store

WORKER = Worker("bench", queues=("q",), lease=3600.0)
BODY = b'{"task":"t","args":[1],"kwargs":{}}'
BATCH, BACKLOG, CLIENTS = 1000, 10_000, 32


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    options = parser.parse_args()
    found = asyncio.run(growth(with_schema(options.url, "bench_growth"), options.jobs))
    found |= asyncio.run(notify(with_schema(options.url, "bench_notify")))
    print(json.dumps(found, indent=2))


async def growth(url: str, jobs: int) -> dict[str, object]:
    """Sizes in MB after 50,000 jobs and at the end."""
    store = make_store(url)
    await store.open()
    await store.beat(WORKER, [])
    await enqueue(store, 0, BACKLOG)
    sizes: dict[int, dict[str, float]] = {}
    with Progress(transient=True) as progress:
        bar = progress.add_task("jobs", total=jobs)
        for done in range(BATCH, jobs + 1, BATCH):
            await enqueue(store, BACKLOG + done, BATCH)
            await finish(store)
            await store.prune(0.0, BATCH)
            progress.advance(bar, BATCH)
            if done in (50_000, jobs):
                sizes[done] = tables(url)
    await store.close()
    return {"table_mb_after_jobs": sizes}


async def notify(url: str) -> dict[str, object]:
    """Commits per second of 32 enqueuers, without and with somebody to wake."""
    stores = [make_store(url) for _ in range(CLIENTS)]
    await stores[0].open()
    for store in stores[1:]:
        await store.open()
    rates = {}
    for name, waiting in (("nobody waits", False), ("a worker waits", True)):
        stop = asyncio.Event()
        sleeper = asyncio.ensure_future(sleep(url, stop)) if waiting else None
        begin = time.perf_counter()
        await asyncio.gather(*(singles(s, f"{name}{n}", 100) for n, s in enumerate(stores)))
        rates[name] = round(CLIENTS * 100 / (time.perf_counter() - begin))
        stop.set()
        if sleeper is not None:
            await sleeper
    for store in stores:
        await store.close()
    return {"enqueues_per_s_of_32_clients": rates}


async def sleep(url: str, stop: asyncio.Event) -> None:
    """A worker of another queue's lane too many: it waits, is rung, and waits again."""
    store = make_store(url)
    await store.open()
    await store.beat(WORKER, [])
    while not stop.is_set():
        plan = plan_claim(1000, "default", [("q", Carry())], await store.facts())
        claimed = await store.claim(plan, WORKER)
        await store.commit([Done(claim.lease) for claim in claimed.claims])
        await store.wait(WORKER, 0.2)
    await store.close()


async def singles(store: Store, name: str, count: int) -> None:
    """One job at a time."""
    for number in range(count):
        await store.enqueue([NewJob(f"{name}-{number}", "q", "t", BODY)])


async def enqueue(store: Store, start: int, count: int) -> None:
    """So many jobs, in batches."""
    for first in range(start, start + count, BATCH):
        await store.enqueue([NewJob(f"j{first + n}", "q", "t", BODY) for n in range(BATCH)])


async def finish(store: Store) -> None:
    """Claim a batch and end it."""
    plan = plan_claim(BATCH, "default", [("q", Carry())], await store.facts())
    claimed = await store.claim(plan, WORKER)
    await store.commit([Done(claim.lease, b"1") for claim in claimed.claims])


def tables(url: str) -> dict[str, float]:
    """The size of each table with its indexes, in MB."""
    parts = urlsplit(url)
    schema = dict(parse_qsl(parts.query))["schema"]
    with psycopg.connect(parts._replace(query="").geturl()) as db:
        rows = db.execute(
            "SELECT relname, pg_total_relation_size(oid) / 1e6 FROM pg_class"
            " WHERE relnamespace = %s::regnamespace AND relkind = 'r' ORDER BY 2 DESC LIMIT 3",
            (schema,),
        ).fetchall()
    return {name: round(float(size), 1) for name, size in rows}


def with_schema(url: str, schema: str) -> str:
    """The URL with a schema of its own."""
    parts = urlsplit(url)
    return parts._replace(query=urlencode({"schema": schema})).geturl()


if __name__ == "__main__":
    main()
