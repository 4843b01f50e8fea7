"""Real processes that are killed with a job in their hands, on every store that has several."""

import asyncio
from typing import Any

import pytest

from mulligan import Delays, JobHandle, Mulligan, Prepared, Retry
from mulligan.core.decide import LOST
from mulligan.core.job import ENDED
from tests.engine.real_engine import until
from tests.lessons.app import hangs_once, kills, make_app, stumbles
from tests.lessons.processes import Processes, processes
from tests.store_kit import calls_for

SHARED = ("sqlite", "redis", "postgres", "mongo")
pytestmark = pytest.mark.parametrize("store_url", SHARED, indirect=True)


@pytest.fixture
def app(store_url):
    """A producer's app on the store of the processes."""
    made = make_app(store_url)
    yield made
    made.close()


@pytest.fixture
def run(store_url, tmp_path):
    """Processes of the app on the store."""
    with processes(store_url, tmp_path) as started:
        yield started


async def sent(app: Mulligan, call: Prepared[Any]) -> JobHandle[Any]:
    """The job that this call makes, on the app's store."""
    [handle] = await app.aenqueue_many(calls_for(app, [call]))
    return handle


async def begun(run: Processes) -> None:
    """Wait until an attempt has noted that it runs."""

    async def is_noted() -> bool:
        return bool(run.ledger())

    await until(is_noted)


async def lost_attempts(handle: JobHandle[Any]) -> list[tuple[int, str]]:
    """Its failed attempts, by number and type."""
    return [(each.number, each.type) for each in await handle.ahistory()]


async def test_a_killed_workers_job_is_reclaimed_and_the_attempt_counted(app, run):
    """huey#559, rq#2015, sidekiq#6829, celery#4984: it was lost, or came back uncounted."""
    job = await sent(app, hangs_once.call())
    first = run.worker()
    await begun(run)
    first.kill()
    run.worker()
    assert await job.aresult(timeout=60) == 2
    assert (await job.ainfo()).retry_count == 1
    assert await lost_attempts(job) == [(1, LOST.type)]
    assert run.ledger() == [f"{job.id} attempt 1", f"{job.id} attempt 2"]


async def test_killing_the_process_that_is_reclaiming_does_not_stop_reclaiming(app, run):
    """taskiq-redis#131, procrastinate#1408: its lock, or its half-done work, stayed for ever."""
    job = await sent(app, hangs_once.call())
    first = run.worker()
    await begun(run)
    first.kill()
    reaper = run.that_dies("reaping")
    assert await asyncio.to_thread(reaper.wait) < 0
    run.worker()
    assert await job.aresult(timeout=60) == 2
    assert await lost_attempts(job) == [(1, LOST.type)]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_crash_between_scheduling_the_retry_and_acking_loses_and_doubles_nothing(
    app, run, moment
):
    """huey#225: the retry was scheduled in one step and the job let go of in another."""
    job = await sent(app, stumbles.call())
    doomed = run.that_dies("retrying", moment)
    assert await asyncio.to_thread(doomed.wait) < 0
    run.worker()
    assert await job.aresult(timeout=60) == 3
    first = LOST.type if moment == "before" else "ConnectionError"
    assert await lost_attempts(job) == [(1, first), (2, "ConnectionError")]
    assert run.ledger() == [f"{job.id} attempt {number}" for number in (1, 2, 3)]


async def test_a_job_that_kills_its_worker_stops_at_the_cap(app, run):
    """celery#8610, dramatiq#383: it came back for ever, and took one worker after the other."""
    job = await sent(app, kills.call())
    deaths = 0
    while (await job.ainfo()).status not in ENDED:
        worker = run.worker()

        async def is_over(worker=worker) -> bool:
            return worker.poll() is not None or (await job.ainfo()).status in ENDED

        await until(is_over)
        deaths += worker.poll() is not None
    assert deaths == 2
    assert await lost_attempts(job) == [(1, LOST.type), (2, LOST.type)]
    assert run.ledger() == [f"{job.id} attempt 1", f"{job.id} attempt 2"]


async def test_a_restarted_worker_of_the_same_name_does_not_hide_its_old_jobs(app, run):
    """oban#862: what the one before had left was taken for the work of the new one."""
    job = await sent(app, hangs_once.call())
    first = run.worker("--name", "mailer")
    await begun(run)
    first.kill()
    run.worker("--name", "mailer")
    assert await job.aresult(timeout=60) == 2
    assert await lost_attempts(job) == [(1, LOST.type)]


async def test_no_second_process_is_needed_for_retries(app, run):
    """rq#1624: without a worker that also schedules, retries with a delay never came."""
    retried = await sent(app, stumbles.call())
    delayed = await sent(app, stumbles.using(delay=0.2, retry=Retry(3, Delays((0.1,)))).call())
    run.worker()
    assert await retried.aresult(timeout=60) == 3
    assert await delayed.aresult(timeout=60) == 3
