"""What many processes share: the limits of a queue, and a collection with another program."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.store_kit import fresh_url

PROJECT = Path(__file__).parents[2]


async def report_of(module: str, *options: str) -> dict[str, Any]:
    """What such a run says in the end."""
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *options,
        stdout=asyncio.subprocess.PIPE, cwd=PROJECT,
    )  # fmt: skip
    try:
        printed, _ = await run.communicate()
    finally:
        if run.returncode is None:
            run.kill()
            await run.wait()
    report: dict[str, Any] = json.loads(printed)
    return report


@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres", "mongo"])
async def test_processes_keep_one_cap_and_one_budget_together(store, tmp_path):
    async with fresh_url(store, tmp_path) as url:
        sizes = ("--jobs", "30", "--workers", "3")
        report = await report_of("tests.chaos.shared_limits", "--url", url, *sizes)
    assert (report["unended"], report["exceeded"]) == (0, False), report
    assert report["retries"] == 60
    assert report["most retries at a time"] > 1


@pytest.mark.timeout(240)
async def test_a_collection_is_shared_with_another_program(tmp_path):
    async with fresh_url("mongo", tmp_path) as url:
        report = await report_of("tests.chaos.shared_collection", "--url", url, "--tasks", "200")
    assert report["statuses"] == {"done": 200}
    assert report["runs per task"] == {"1": 200}
    assert set(report["runs by"]) <= {"mulligan", "pymongo"}


@pytest.mark.prove
@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres", "mongo"])
async def test_a_region_that_fails_fast_costs_few_attempts_and_no_job(store, tmp_path):
    async with fresh_url(store, tmp_path) as url:
        report = await report_of("tests.chaos.black_hole", "--url", url, "--outage", "30")
    assert report["dead letters"] == 0, report
    assert report["wasted in the first 10 s"] <= 60, report
