"""`python -m tests.chaos.black_hole --store redis`: a region that fails fast, beside a healthy one.

Two worker processes with four slots each: attempts in US fail within 2.5 ms, those in EU succeed
after 100 ms, so EU does 40 a second. 1,000 jobs come at once and 16 a second after that, every
other one for US. With `--outage` and `--after` US recovers, and it is told how it came back.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from mulligan.core.facts import Facts
from mulligan.core.stats import Stats
from mulligan.stores.contract import Store
from tests.chaos.stand import place

PROJECT = Path(__file__).parents[2]
FIRST, MINUTE, EVERY = 10.0, 60.0, 0.1
PER_TICK = 2
ALLOWED_FIRST, ALLOWED_LATER = 60, 3


class Ran(NamedTuple):
    """An attempt, by the clock of the machine."""

    region: str
    began: float
    ended: float
    failed: bool


def main() -> None:
    """Run it on one store; exit 1 if more was wasted than is allowed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.black_hole")
    parser.add_argument("--store", default="sqlite", help="one of which a server is started")
    parser.add_argument("--url", help="one that is there, and empty")
    parser.add_argument("--jobs", type=int, default=1000, help="that come at once")
    parser.add_argument("--outage", type=float, default=75, help="seconds until US recovers")
    parser.add_argument("--after", type=float, default=0, help="seconds to watch it come back")
    options = parser.parse_args()
    with (
        nullcontext((options.url, None)) if options.url else place(options.store) as (url, _server),
        tempfile.TemporaryDirectory() as folder,
    ):
        report = run(url, Path(folder), options)
    print(json.dumps(report, indent=2))
    sys.exit(bool(wrong_with(report)))


def wrong_with(report: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    allowed = {
        "dead letters": 0,
        "wasted in the first 10 s": ALLOWED_FIRST,
        "wasted in any minute after": ALLOWED_LATER,
    }
    return [name for name, most in allowed.items() if report[name] > most]


def run(url: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Enqueue, let the workers run, and look at what their attempts did."""
    os.environ |= {"MULLIGAN_CHAOS_URL": url, "MULLIGAN_CHAOS_FOLDER": str(folder)}
    hole = import_module("tests.chaos.black_hole_app")
    hole.OUTAGE.touch()
    hole.NOTES.touch()
    hole.app.configure()
    numbers = iter(range(10**9))

    def send(count: int, regions: tuple[str, ...] = ("US", "EU")) -> None:
        hole.app.enqueue_many(
            hole.ask.using(region=regions[number % len(regions)]).call(number)
            for number, _ in zip(numbers, range(count), strict=False)
        )

    with workers():
        wait_for(hole.app, lambda facts: len(facts.serving("ask")) == 2)
        began = time.monotonic()
        send(options.jobs)
        while time.monotonic() < began + options.outage:
            time.sleep(EVERY)
            send(PER_TICK)
        recovered = time.monotonic()
        hole.OUTAGE.unlink()
        closed = None
        while time.monotonic() < recovered + options.after:
            send(10 * PER_TICK, ("US",))
            if closed is None and not is_open(hole.app):
                closed = time.monotonic()
            time.sleep(EVERY)
        ran = read(hole.NOTES)
        stats = hole.app.run(lambda: hole.app.access.acall(stats_of))
    report = told(ran, began, recovered, stats)
    report |= {} if closed is None else came_back(ran, recovered, closed)
    return {"store": url.partition(":")[0], **report}


@contextmanager
def workers() -> Iterator[None]:
    """A worker in each region, stopped afterwards."""
    command = [sys.executable, "-m", "mulligan", "worker", "tests.chaos.black_hole_app:app"]
    started = [
        subprocess.Popen(
            [*command, "--region", region, "--log-level", "error"], cwd=PROJECT, stdout=sys.stderr
        )
        for region in ("US", "EU")
    ]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def told(ran: list[Ran], began: float, recovered: float, stats: Stats) -> dict[str, Any]:
    """What was wasted until it recovered, and how busy EU was while there was a backlog."""
    wasted = sorted(each.began - began for each in ran if each.failed)
    later = [at for at in wasted if at >= FIRST]
    europe = [each for each in ran if each.region == "EU" and each.ended <= recovered]
    busy = sum(each.ended - each.began for each in europe if each.ended <= began + FIRST)
    return {
        "done": stats.ended.get(("ask", "done"), 0),
        "dead letters": stats.ended.get(("ask", "failed"), 0),
        "wasted in the first 10 s": bisect_left(wasted, FIRST),
        "wasted in any minute after": most_in_window(later, MINUTE),
        "wasted in all": len(wasted),
        "EU busy in the first 10 s": round(busy / (4 * FIRST), 3),
        "EU longest pause, first 10 s": round(longest_pause(europe, began), 3),
    }


def came_back(ran: list[Ran], recovered: float, closed: float) -> dict[str, Any]:
    """How soon US was tried, closed its breaker and worked at its full rate."""
    good = sorted(each.began for each in ran if each.region == "US" and each.began > recovered)
    full = [at for at in good if closed + 5 <= at < closed + 10]
    return {
        "first probe after": round(good[0] - recovered, 2) if good else None,
        "closed after": round(closed - recovered, 2),
        "successes until closed": bisect_left(good, closed),
        "US a second, from 5 s after": len(full) / 5,
    }


def longest_pause(europe: list[Ran], began: float) -> float:
    """The longest time in the first seconds without an attempt under way in EU."""
    pause, until = 0.0, began
    for each in sorted(europe, key=lambda ran: ran.began):
        if until > began + FIRST:
            break
        pause, until = max(pause, each.began - until), max(until, each.ended)
    return pause


def most_in_window(starts: list[float], per: float) -> int:
    """The largest number of starts in any window of this length, its end not included."""
    return max((bisect_left(starts, at + per) - n for n, at in enumerate(starts)), default=0)


def read(notes: Path) -> list[Ran]:
    """Every attempt that was noted."""
    lines = [line.split() for line in notes.read_text().splitlines()]
    return [Ran(region, float(b), float(e), how == "failed") for region, b, e, how in lines]


async def stats_of(store: Store) -> Stats:
    """Counts of everything."""
    return await store.stats()


async def facts_of(store: Store) -> Facts:
    """What is known of the regions."""
    return await store.facts()


def is_open(app: Any) -> bool:
    """Whether the breaker of US is open."""
    facts: Facts = app.run(lambda: app.access.acall(facts_of))
    return facts.health_of("ask", "US").breaker.open


def wait_for(app: Any, true: Any) -> None:
    """Wait until the store knows so."""
    until = time.monotonic() + 30
    while not true(app.run(lambda: app.access.acall(facts_of))) and time.monotonic() < until:
        time.sleep(EVERY)


if __name__ == "__main__":
    main()
