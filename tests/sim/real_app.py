"""The app of a real run: does what a scenario says, on a store, in less than its time."""

import asyncio
import os
from pathlib import Path

from msgspec.structs import replace

from mulligan import Delays, Mulligan, Retry, Settings, current_job
from mulligan.sim import load_scenario
from mulligan.sim.scenario import Planned, arrivals

STORE, SCENARIO, SCALE, STARTS = "REAL_STORE", "REAL_SCENARIO", "REAL_SCALE", "REAL_STARTS"


class AsTheScenarioSaysError(Exception):
    """What an attempt raises that is to fail."""


def scaled(retry: Retry, scale: float) -> Retry:
    """The policy, in less time."""
    assert isinstance(retry.backoff, Delays), "a real run needs a list of delays"
    return replace(retry, backoff=Delays(tuple(each * scale for each in retry.backoff.seconds)))


def make_app(url: str, scenario_path: str, scale: float, starts: Path) -> Mulligan:
    """The app; each attempt first adds a line to the file `starts`."""
    scenario = load_scenario(scenario_path)
    jobs: dict[str, Planned] = {job.id: job for job in arrivals(scenario)}
    app = Mulligan(url, settings=Settings(concurrency=1))
    app.queue("default", policy=scenario.queue.policy, grace=scenario.queue.grace_seconds * scale)

    @app.task
    async def play() -> None:
        job = current_job()
        with starts.open("a") as file:
            file.write(f"{job.id} {job.attempt} {job.worker_region}\n")
        await asyncio.sleep(jobs[job.id].duration * scale)
        if job.attempt in jobs[job.id].fail:
            raise AsTheScenarioSaysError

    return app


if STORE in os.environ:
    app = make_app(
        os.environ[STORE],
        os.environ[SCENARIO],
        float(os.environ[SCALE]),
        Path(os.environ[STARTS]),
    )
