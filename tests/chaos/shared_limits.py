"""`python -m tests.chaos.shared_limits --store sqlite`: many processes keep one cap and one budget.

Every job fails once. Of the retries that follow it is counted how many ran at a time, by the
clock of the machine, and how many started in any window, by the clock of the store.
"""

import argparse
import json
import os
import random
import sys
import time
from bisect import bisect_left
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from mulligan.core.job import Job
from mulligan.core.page import Selection
from mulligan.stores.contract import Store
from tests.chaos.fleet import Fleet, worker_command
from tests.chaos.stand import place


def main() -> None:
    """Run it on one store; exit 1 if a limit was exceeded or never reached."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.shared_limits")
    parser.add_argument("--store", default="sqlite", help="one of which a server is started")
    parser.add_argument("--url", help="one that is there, and empty")
    parser.add_argument("--jobs", type=int, default=100, help="of each kind")
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--limit", type=float, default=180, help="seconds until it gives up")
    options = parser.parse_args()
    with (
        nullcontext((options.url, None)) if options.url else place(options.store) as (url, _server)
    ):
        report = run(url, options)
    print(json.dumps(report, indent=2))
    sys.exit(report["exceeded"] or not report["reached"] or bool(report["unended"]))


def run(url: str, options: argparse.Namespace) -> dict[str, Any]:
    """Enqueue, let the workers run, and look at what their retries did."""
    os.environ["MULLIGAN_CHAOS_URL"] = url  # read when the app is imported
    limits = import_module("tests.chaos.limits_app")
    limits.app.configure()
    for task in (limits.capped, limits.budgeted):
        limits.app.enqueue_many(task.call() for _ in range(options.jobs))
    commands = {"worker": worker_command("tests.chaos.limits_app:app")}
    env = {"MULLIGAN_CHAOS_URL": url}
    fleet = Fleet(commands, {"worker": options.workers}, env, random.Random(0))
    deadline = time.monotonic() + options.limit
    try:
        jobs = ended(limits.app)
        while len(jobs) < 2 * options.jobs and time.monotonic() < deadline:
            fleet.fill()
            time.sleep(0.2)
            jobs = ended(limits.app)
    finally:
        fleet.stop()
    spans = [job.value() for job in jobs if job.queue == "capped"]
    starts = sorted(job.started_at or 0.0 for job in jobs if job.queue == "budgeted")
    at_once, in_window = most_at_once(spans), most_in_window(starts, limits.PER)
    return {
        "store": url.partition(":")[0],
        "worker processes": options.workers,
        "retries": len(spans) + len(starts),
        "cap": limits.CAP,
        "most retries at a time": at_once,
        "budget": f"{limits.BUDGET} in {limits.PER:g} s",
        "most starts in a window": in_window,
        "regions of the workers": sorted({job.worker_region or "" for job in jobs}),
        "unended": 2 * options.jobs - len(jobs),
        "exceeded": at_once > limits.CAP or in_window > limits.BUDGET,
        "reached": at_once == limits.CAP and in_window == limits.BUDGET,
    }


def ended(app: Any) -> list[Job]:
    """Every job that is done."""

    async def read(store: Store) -> list[Job]:
        return (await store.page(Selection(status="done"), 10_000)).jobs

    found: list[Job] = app.run(lambda: app.access.acall(read))
    return found


def most_at_once(spans: list[list[float]]) -> int:
    """The largest number of spans that overlap."""
    changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    level = most = 0
    for _, change in changes:
        level += change
        most = max(most, level)
    return most


def most_in_window(starts: list[float], per: float) -> int:
    """The largest number of starts in any window of this length, its end not included."""
    return max((bisect_left(starts, at + per) - n for n, at in enumerate(starts)), default=0)


if __name__ == "__main__":
    main()
