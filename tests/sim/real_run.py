"""The simulator's word against real workers: one process for each region, on a real store.

`python -m tests.sim.real_run` runs it on SQLite, and on Redis where MULLIGAN_TEST_REDIS_URL is
set; it prints both orders of starts and fails if they differ.
"""

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from mulligan import Mulligan
from mulligan.sim import load_scenario, simulate
from mulligan.sim.scenario import Scenario, arrivals
from tests.cli.command_line import do
from tests.sim.real_app import SCALE, SCENARIO, STARTS, STORE, make_app, scaled
from tests.store_kit import remove_keys, with_query

REAL = str(Path(__file__).with_name("real.toml"))
# 30 s of service become 0.9 s.
QUICK = 0.03
LONGEST_WAIT = 120.0
REDIS = "MULLIGAN_TEST_REDIS_URL"


class Start(NamedTuple):
    """An attempt that began."""

    job: str
    attempt: int
    region: str


def simulated(scenario: Scenario) -> list[Start]:
    """The starts as the simulator has them."""
    return [Start(a.job, a.number, a.region) for a in simulate(scenario).log.attempts]


def real(url: str, scale: float, folder: Path) -> list[Start]:
    """The starts as real workers have them."""
    starts = folder / "starts"
    scenario = load_scenario(REAL)
    app = make_app(url, REAL, scale, starts)
    with workers(scenario, {STORE: url, SCENARIO: REAL, SCALE: str(scale), STARTS: str(starts)}):
        until(lambda: live(app) == len(scenario.regions))
        jobs = feed(app, scenario, scale)
        until(lambda: ended(app) == jobs)
        app.close()
    lines = starts.read_text().splitlines()
    return [
        Start(job, int(attempt), region)
        for job, attempt, region in (line.rsplit(" ", 2) for line in lines)
    ]


def feed(app: Mulligan, scenario: Scenario, scale: float) -> int:
    """Enqueue each job at its time, and say how many there were."""
    begin = time.monotonic()
    jobs = arrivals(scenario)
    for job in jobs:
        time.sleep(max(0.0, begin + job.at * scale - time.monotonic()))
        app.tasks["play"].using(
            id=job.id, region=job.region, retry=scaled(job.retry, scale)
        ).enqueue()
    return len(jobs)


@contextmanager
def workers(scenario: Scenario, environment: dict[str, str]) -> Iterator[None]:
    """A worker process for each region; they are told to stop in the end."""
    command = [sys.executable, "-m", "mulligan", "worker", "tests.sim.real_app:app"]
    started = [
        subprocess.Popen(
            [*command, "--region", region.name, "--log-level", "error"],
            env={**os.environ, **environment},
            stderr=subprocess.DEVNULL,
        )
        for region in scenario.regions
    ]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(LONGEST_WAIT)


def until(holds: Callable[[], bool]) -> None:
    """Wait for it, but not for ever."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def live(app: Mulligan) -> int:
    """How many workers are alive."""
    stats = do(app.url, lambda store: store.stats())
    return sum(view.live for view in stats.workers)


def ended(app: Mulligan) -> int:
    """How many jobs have ended."""
    stats = do(app.url, lambda store: store.stats())
    return sum(stats.ended.values())


@contextmanager
def place(engine: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store, which is removed afterwards."""
    if engine == "sqlite":
        yield f"sqlite:///{folder / 'real.db'}"
    else:
        prefix = f"test:{secrets.token_hex(6)}"
        yield with_query(os.environ[REDIS], prefix=prefix)
        remove_keys(os.environ[REDIS], prefix)


def main() -> int:
    """Run it on each store that there is."""
    expected = simulated(load_scenario(REAL))
    same = True
    for engine in ("sqlite", "redis"):
        if engine == "redis" and REDIS not in os.environ:
            click.echo(f"redis: left out, {REDIS} is not set")
            continue
        with tempfile.TemporaryDirectory() as folder, place(engine, Path(folder)) as url:
            found = real(url, QUICK, Path(folder))
        click.echo(f"{engine}: {'the same order' if found == expected else 'NOT the same order'}")
        for ours, theirs in zip(expected, found, strict=False):
            mark = " " if ours == theirs else "!"
            click.echo(f"  {mark} {' '.join(map(str, ours)):16} {' '.join(map(str, theirs))}")
        same = same and found == expected
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
