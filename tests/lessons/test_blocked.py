"""Tasks that let nothing else run: bullmq#3183, where a blocked process lost what it worked on."""

import pytest

from mulligan import JobFailedError
from tests.contract.builders import used
from tests.lessons.app import (
    blocks_the_loop,
    computes,
    hangs,
    hangs_in_a_thread,
    holds_the_gil,
    make_app,
)
from tests.lessons.processes import processes
from tests.store_kit import calls_for

SHARED = ("sqlite", "redis", "postgres", "mongo")
pytestmark = pytest.mark.parametrize("store_url", SHARED, indirect=True)


@pytest.fixture
def app(store_url):
    """A producer's app on the store of the processes."""
    made = make_app(store_url)
    yield made
    made.close()


@pytest.mark.parametrize("task", [blocks_the_loop, computes, holds_the_gil], ids=lambda t: t.name)
async def test_a_blocked_event_loop_or_a_held_gil_does_not_lose_leases(
    app, store_url, tmp_path, task
):
    """One worker is blocked for two leases while another one looks for lost jobs."""
    with processes(store_url, tmp_path) as run:
        run.worker()
        run.worker()
        [job] = await app.aenqueue_many(calls_for(app, [task.call()]))
        assert await job.aresult(timeout=60) == 1
        assert used(await job.ainfo()) == 1
        assert await job.ahistory() == []


@pytest.mark.parametrize("task", [hangs, hangs_in_a_thread], ids=lambda t: t.name)
async def test_a_hung_job_is_still_ended_by_its_timeout(app, store_url, tmp_path, task):
    """Its lease would be kept for ever: the worker that holds it is alive and beats."""
    with processes(store_url, tmp_path) as run:
        run.worker()
        [job] = await app.aenqueue_many(calls_for(app, [task.call()]))
        with pytest.raises(JobFailedError, match=r"longer than 0\.3 s"):
            await job.aresult(timeout=60)
