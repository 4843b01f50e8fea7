"""`python -m tests.chaos --store sqlite --jobs 20000`: the run, its faults and its verdict."""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from mulligan import Mulligan
from mulligan.core.job import Job
from mulligan.stores.contract import Page, Selection, Store
from tests.chaos.fleet import Fleet
from tests.servers import PostgresServer, RedisServer
from tests.servers.mongo import mongo_server

FAULTS = ("lost", "unended", "broken", "stale commits accepted")
KILL_EVERY, PAUSE_EVERY = 1.0, 3.0


def main() -> None:
    """Run chaos on one store; exit 1 if a job was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--restarts", type=int, default=3, help="kills of the server, if any")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600, help="seconds until it gives up")
    parser.add_argument("--log", type=Path, help="where to keep what the workers said")
    options = parser.parse_args()
    with place(options.store) as (url, server):
        report = run(url, server, options)
    print(json.dumps(report, indent=2))
    sys.exit(any(report[fault] for fault in FAULTS))


@contextmanager
def place(store: str) -> Iterator[tuple[str, Any]]:
    """A store's URL, and the server behind it that may be killed."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'chaos.db'}", None
        return
    make = {"redis": RedisServer, "postgres": PostgresServer, "mongo": mongo_server}[store]
    with make() as server:
        yield server.url, server


def run(url: str, server: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Enqueue, do harm until every job has ended, and look at what is stored."""
    os.environ["MULLIGAN_CHAOS_URL"] = url  # read when the app is imported
    chaos = import_module("tests.chaos.app")
    app: Mulligan = chaos.app
    chance = random.Random(options.seed)
    handles = app.enqueue_many(chaos.work.call(number) for number in range(options.jobs))
    ids = [handle.id for handle in handles]
    fleet = Fleet(url, options.workers, chance)
    fleet.fill()
    begin = time.monotonic()
    restarts = harm(app, fleet, server, options, begin)
    seconds = time.monotonic() - begin
    log = fleet.stop()
    if options.log:
        options.log.write_text(log)
    jobs = {job.id: job for job in everything(app)}
    history = {job.id: app.job(job.id).history() for job in list(jobs.values())[:500]}
    app.close()
    return {
        "store": options.store,
        "jobs": options.jobs,
        "seconds": round(seconds, 1),
        "kills": fleet.kills,
        "pauses beyond the lease": fleet.pauses,
        "server restarts": restarts,
        "done": sum(job.status == "done" for job in jobs.values()),
        "failed": sum(job.status == "failed" for job in jobs.values()),
        "lost": sum(id_ not in jobs for id_ in ids),
        "unended": sum(job.status not in ("done", "failed") for job in jobs.values()),
        "broken": [job.id for job in jobs.values() if not sound(job, history.get(job.id))],
        "leases seized": log.count("stopped beating"),
        "stale commits refused": log.count("was refused"),
        "stale commits accepted": sum(is_stale(job) for job in jobs.values()),
    }


def harm(
    app: Mulligan, fleet: Fleet, server: Any, options: argparse.Namespace, begin: float
) -> int:
    """Kill, pause and restart until nothing is left to do; how often the server was killed."""
    next_kill = next_pause = begin + KILL_EVERY
    restarts = 0
    while unfinished(app):
        now = time.monotonic()
        if now - begin > options.limit:
            break
        if now >= next_kill:
            fleet.kill_one()
            next_kill = now + KILL_EVERY
        if now >= next_pause:
            fleet.pause_one(1.5 * app.settings.lease)
            next_pause = now + PAUSE_EVERY
        if server is not None and restarts < options.restarts and now - begin > 3 * (restarts + 1):
            server.kill()
            server.start()
            restarts += 1
        fleet.wake()
        fleet.fill()
        time.sleep(0.1)
    return restarts


def unfinished(app: Mulligan) -> bool:
    """Whether a job waits or runs; a store that is away says nothing."""
    try:
        stats = app.access.call(lambda store: store.stats())
    except Exception as error:  # noqa: BLE001 - the server is being restarted
        print(f"looking: {type(error).__name__}", file=sys.stderr)
        return True
    return bool(stats.running or stats.lanes)


def everything(app: Mulligan) -> Iterator[Job]:
    """Every job in the store, page by page."""
    after: str | None = None
    while True:
        page = app.access.call(partial(page_of_all, after))
        yield from page.jobs
        after = page.after
        if after is None:
            return


async def page_of_all(after: str | None, store: Store) -> Page:
    """The next thousand jobs."""
    return await store.page(Selection(), 1000, after)


def is_stale(job: Job) -> bool:
    """Whether the job's result was written under another lease than its last."""
    return job.status == "done" and job.value() != job.token


def sound(job: Job, history: list[Any] | None) -> bool:
    """Whether a job's counters agree with each other and with its history."""
    if job.status == "failed" and job.retry_count != 20:
        return False
    if history is None:
        return True
    numbers = [attempt.number for attempt in history]
    failures = job.retry_count + (job.status == "failed")
    return numbers == list(range(1, failures + 1))


if __name__ == "__main__":
    main()
