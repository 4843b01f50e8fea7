"""One job among a thousand kills every process that runs it: it alone ends as a dead letter."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mulligan import Mulligan
from mulligan.core.decide import LOST
from mulligan.core.job import Job
from mulligan.core.page import Selection
from mulligan.stores.contract import Store
from tests.collateral.app import CROWD, work
from tests.collateral.app import app as described
from tests.store_kit import STORES, calls_for, fresh_url, require

JOBS, POISON = 1000, 437
LONGEST = 200
WORKER = [sys.executable, "-m", "mulligan", "worker", "tests.collateral.app:app"]


@pytest.mark.timeout(2 * LONGEST)
@pytest.mark.parametrize("name", [name for name in STORES if name != "memory"])
async def test_a_job_that_kills_its_process_takes_no_other_to_failed(name, tmp_path):
    require(name)
    async with fresh_url(name, tmp_path) as url:
        app = Mulligan(url, settings=described.settings)
        calls = [work.call(number, deadly=number == POISON) for number in range(JOBS)]
        await app.aenqueue_many(calls_for(app, calls))
        deaths = await run_workers(app, url)
        found = {job.id: job for job in await everything(app)}
        poison = found.pop(calls[POISON].job.id)
        assert {job.status for job in found.values()} == {"done"}
        assert poison.status == "failed"
        assert poison.last_failure_reason == f"Lost: {LOST.message}"
        assert deaths == 1 + 5  # its first attempt and its retries, one process each
        assert sum(job.retry_count > 0 for job in found.values()) >= CROWD // 2
        # Lost once in the crowd, once among a few; whoever comes after the culprit, never again.
        assert max(job.retry_count for job in found.values()) <= 2
        assert sum(job.retry_count == 2 for job in found.values()) < 10
        app.close()


async def run_workers(app: Mulligan, url: str) -> int:
    """Replace the worker whenever it dies, until everything has ended; how often it did."""
    environment = {**os.environ, "MULLIGAN_COLLATERAL_URL": url}
    deaths, deadline = 0, time.monotonic() + LONGEST
    worker = start(environment)
    try:
        while await waiting(app):
            assert time.monotonic() < deadline, "the jobs do not come to an end"
            try:
                worker.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            deaths += 1
            await bury(app)
            worker = start(environment)
    finally:
        worker.terminate()
        worker.wait(60)
    return deaths


def start(environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    command = [*WORKER, "--log-level", "error"]
    return subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[2])


async def bury(app: Mulligan) -> None:
    """Have the leases of the dead run out at once."""

    async def leave(store: Store) -> None:
        for dead in (await store.stats()).workers:
            await store.leave(dead.worker)

    await app.access.acall(leave)


async def waiting(app: Mulligan) -> bool:
    stats = await app.access.acall(lambda store: store.stats())
    ended = sum(stats.ended.values())
    return ended < JOBS


async def everything(app: Mulligan) -> list[Job]:
    page = await app.access.acall(lambda store: store.page(Selection(), JOBS))
    return page.jobs
