"""Child processes with whole workers, on every store; kill -9 of children and of workers."""

import asyncio
import os
import signal

import pytest

from mulligan import Mulligan
from tests.cli.command_line import process, read_until
from tests.pools.app import make
from tests.pools.worker import gone, pids_in, working

pytestmark = pytest.mark.prove
TIMEOUT = 60
APP = "tests.pools.app:app"


@pytest.fixture
def app(store_url, monkeypatch):
    monkeypatch.setenv("TEST_STORE", store_url)
    made = make(store_url)
    made.called = APP
    yield made
    made.close()


async def test_a_worker_runs_kills_and_replaces_children(app, tmp_path):
    async with working(app):
        dies = await app.tasks["die"].aenqueue("segfault")
        hangs = await app.tasks["hang"].aenqueue()
        holds = await app.tasks["hold"].aenqueue(str(tmp_path / "held"), str(tmp_path / "never"))
        pids = await pids_in(tmp_path / "held.1")
        assert await holds.acancel()
        await gone(*pids)
        calls = [app.tasks["square"].call(number) for number in range(20)]
        total = await app.agather(calls, app.tasks["total"])
        assert await total.aresult(timeout=TIMEOUT) == sum(n * n for n in range(20))
        assert await dies.aresult(timeout=TIMEOUT) == "lived"
        while (await hangs.ainfo()).status != "failed":  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.02)
        [died], [late] = await dies.ahistory(), await hangs.ahistory()
        assert (died.type, late.type) == ("ProcessDied", "Timeout")
        assert (await holds.ainfo()).status == "cancelled"


async def test_a_child_that_is_killed_costs_its_job_one_attempt(app, tmp_path):
    async with working(app):
        job = await app.tasks["hold"].aenqueue(str(tmp_path / "held"), str(tmp_path / "never"))
        child, grandchild = await pids_in(tmp_path / "held.1")
        os.kill(child, signal.SIGKILL)
        assert await job.aresult(timeout=TIMEOUT) == [2]
        assert [each.type for each in await job.ahistory()] == ["ProcessDied"]
        await gone(child, grandchild)


async def test_children_die_with_their_worker_and_their_jobs_run_once_more(app, tmp_path):
    if app.url.startswith("memory:"):
        pytest.skip("memory ends with the process that is killed")
    job = await app.tasks["hold"].aenqueue(str(tmp_path / "held"), str(tmp_path / "never"))
    options = ("worker", APP, "--pool-size", "1")
    with process(*options) as first:
        pids = await pids_in(tmp_path / "held.1")
        first.kill()
        first.wait()
        await gone(*pids)
        with process(*options) as second:
            assert await job.aresult(timeout=TIMEOUT) == [2]
            second.send_signal(signal.SIGTERM)
            await asyncio.to_thread(read_until, second, "stopped")
            assert second.wait() == 0
    assert [each.type for each in await job.ahistory()] == ["Lost"]
    assert not (tmp_path / "held.3").exists()


async def test_a_thousand_jobs_go_through_two_children(app: Mulligan):
    square = app.tasks["square"]
    jobs = await app.aenqueue_many([square.call(number) for number in range(1000)])
    async with working(app):
        results = [await job.aresult(timeout=300) for job in jobs]
    assert results == [number * number for number in range(1000)]
