"""From four to eight shards while jobs run: workers are started again one at a time."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mulligan import Mulligan
from mulligan.core.errors import InvalidError
from mulligan.core.shards import tag_of
from mulligan.stores import make_store
from tests.failover.app import RUNS, URL, work
from tests.failover.run import PROJECT
from tests.store_kit import fresh_url

JOBS = 300
ENDS_WITHIN = 60


def started(url: str, runs: Path, log: Path) -> subprocess.Popen[bytes]:
    """A worker with this list of shards."""
    command = [sys.executable, "-m", "mulligan", "worker", "tests.failover.app:app"]
    env = {**os.environ, URL: url, RUNS: str(runs)}
    with log.open("ab") as told:
        return subprocess.Popen(command, cwd=PROJECT, env=env, stdout=told, stderr=told)


def ended(worker: subprocess.Popen[bytes]) -> int:
    """Stop a worker as an operator does, unless it has stopped by itself; how it ended."""
    if worker.poll() is None:
        worker.send_signal(signal.SIGTERM)
    return worker.wait(ENDS_WITHIN)


async def until_done(app: Mulligan, jobs: int) -> None:
    """Return when so many jobs have ended."""
    async with asyncio.timeout(ENDS_WITHIN):
        while True:
            stats = await app.access.acall(lambda store: store.stats())
            if sum(stats.ended.values()) >= jobs:
                return
            await asyncio.sleep(0.05)


def ready_in(log: Path) -> int:
    """How many workers have started: before that, a signal ends one at once."""
    return log.read_text().count("ready for jobs")


async def until_ready(log: Path, workers: int) -> None:
    """Return when so many workers have started."""
    async with asyncio.timeout(ENDS_WITHIN):
        while True:
            if ready_in(log) >= workers:
                return
            await asyncio.sleep(0.05)


async def enqueued(app: Mulligan, first: int) -> list[str]:
    """The ids of so many jobs more."""
    calls = [task_of(app).call(first + number) for number in range(JOBS)]
    return [job.id for job in await app.aenqueue_many(calls)]


def task_of(app: Mulligan) -> Any:
    """The task that the workers run, as a task of this app, whose ids name its shards."""
    return app.tasks.get(work.name) or app.task(name=work.name)(work.__wrapped__)


@pytest.mark.parametrize("kind", ["redis", "sqlite"])
async def test_workers_are_started_again_one_at_a_time_and_every_job_runs(kind, tmp_path):
    runs, log = tmp_path / "runs", tmp_path / "log"
    runs.touch()
    async with fresh_url(kind, tmp_path) as place:
        mark = "&" if "?" in place else "?"
        four, eight = (f"{place}{mark}shards={count}" for count in (4, 8))
        app, grown = Mulligan(four), Mulligan(eight)
        keyed = await app.aenqueue_many([task_of(app).using(unique_key="k", delay=3600.0).call(0)])
        workers = [started(four, runs, log) for _ in range(2)]
        try:
            await enqueued(app, 1)
            await until_done(app, JOBS // 3)
            for number in range(2):
                ended(workers[number])
                workers[number] = started(eight, runs, log)
                late = await enqueued(app, 1 + JOBS * (number + 1))  # it has the shorter list
                assert {tag_of(job) for job in late} == {0, 1, 2, 3}
            again = await grown.aenqueue_many([task_of(grown).using(unique_key="k").call(0)])
            new = await enqueued(grown, 1 + 3 * JOBS)
            await until_done(grown, 4 * JOBS)
            await until_ready(log, 4)
            ends = [ended(worker) for worker in workers]
        finally:
            for worker in workers:
                ended(worker)
        assert ends == [0, 0], log.read_text()
        assert (again[0].id, again[0].created) == (keyed[0].id, False)
        assert sorted(Counter(runs.read_text().split())) == sorted(
            str(number) for number in range(1, 4 * JOBS + 1)
        )
        assert {tag_of(job) for job in new} == set(range(8))
        shorter = make_store(four)
        with pytest.raises(InvalidError, match="the app has 8 shards, and the list has 4"):
            await shorter.open()
        await shorter.close()
        app.close()
        grown.close()
