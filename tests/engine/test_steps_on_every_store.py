"""Steps, progress, log and checkpoint with whole workers, on every store."""

import asyncio
import logging

import pytest
from msgspec import UNSET

from mulligan import Delays, Mulligan, Retry, Settings, astep, current_job, step
from mulligan.core.settings import LINE_LIMIT
from tests.engine.test_on_every_store import LEASE, working

AT_ONCE = Retry(5, Delays((0,)))


@pytest.fixture
def app(store_url):
    made = Mulligan(store_url, settings=Settings(lease=LEASE, beat=0.2, concurrency=5))
    yield made
    made.close()


async def test_recorded_steps_are_handed_to_later_attempts(app):
    runs = []

    def charge(name: str) -> dict[str, str]:
        runs.append(name)
        return {"charged": name}

    @app.task(retry=AT_ONCE)
    async def coroutine() -> list[object]:
        job = current_job()
        got = [await astep("one", charge, "one")]
        job.progress(job.attempt, of=3)
        job.log(f"attempt {job.attempt}")
        await job.acheckpoint({"attempt": job.attempt})
        if job.attempt == 1:
            raise ConnectionError("after the first")
        got.append(await astep("two", charge, "two"))
        if job.attempt == 2:
            raise ConnectionError("after the second")
        return [*got, await job.alast_checkpoint()]

    @app.task(retry=AT_ONCE)
    def plain() -> list[object]:
        job = current_job()
        first = job.last_checkpoint
        got = step("three", charge, "three")
        job.checkpoint(job.attempt)
        if job.attempt == 1:
            raise ConnectionError("once more")
        return [got, first]

    async with working(app):
        jobs = [await coroutine.aenqueue(), await plain.aenqueue()]
        results = await asyncio.gather(*(job.aresult(timeout=60) for job in jobs))
        assert results == [
            [{"charged": "one"}, {"charged": "two"}, {"attempt": 3}],
            [{"charged": "three"}, 1],
        ]
        records = await jobs[0].arecords()
    assert sorted(runs) == ["one", "three", "two"]
    assert [(each.name, each.result) for each in records.steps] == [
        ("one", {"charged": "one"}),
        ("two", {"charged": "two"}),
    ]
    assert (records.progress.done, records.progress.of, records.progress.share) == (3, 3, 1.0)
    assert [line.text for line in records.log] == ["attempt 1", "attempt 2", "attempt 3"]
    assert records.checkpoint.value == {"attempt": 3}


async def test_lines_and_notes_are_read_whole_and_a_long_result_when_it_is_asked_for(app):
    text, result = "☃" * LINE_LIMIT, "x" * 5000

    @app.task
    async def wordy() -> None:
        job = current_job()
        job.log(text)
        job.progress(1, note=text)
        await astep("download", lambda: result)
        await job.acheckpoint(result)

    async with working(app):
        job = await wordy.aenqueue()
        await job.aresult(timeout=60)
    short, full = await job.arecords(), await job.arecords(full=True)
    for found in (short, full):
        assert [line.text for line in found.log] == [text]
        assert found.progress.note == text
    assert (short.steps[0].result, short.checkpoint.value) == (UNSET, UNSET)
    assert (full.steps[0].result, full.checkpoint.value) == (result, result)
    assert await asyncio.to_thread(job.records, full=True) == full


async def test_a_cancelled_job_ends_at_its_next_record(app):
    began, went_on = asyncio.Event(), []

    @app.task(retry=AT_ONCE)
    async def long() -> None:
        began.set()
        for number in range(1000):
            try:
                await astep(f"step-{number}", asyncio.sleep, 0.01)
            except Exception:  # noqa: BLE001 - what a careless task does
                went_on.append(number)

    async with working(app):
        job = await long.aenqueue()
        await began.wait()
        assert await job.acancel()
    assert went_on == []
    assert (await job.ainfo()).status == "cancelled"


@pytest.mark.parametrize("end", ["heartbeat", "record", "outcome"])
async def test_a_cancel_is_logged_once_as_what_it_is(store_url, caplog, end):
    """And not as a lost lease, wherever the worker learns of it first."""
    beat = 0.2 if end == "heartbeat" else 20.0
    app = Mulligan(store_url, settings=Settings(lease=60.0, beat=beat, concurrency=5))
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.task(retry=AT_ONCE)
    async def long() -> None:
        began.set()
        await go_on.wait()
        if end == "record":
            current_job().log("so far")
            await current_job().acheckpoint(1)

    caplog.set_level(logging.INFO, "mulligan.worker")
    async with working(app):
        job = await long.aenqueue()
        await began.wait()
        assert await job.acancel("the customer left")
        if end != "heartbeat":
            go_on.set()
        while job.id not in caplog.text:  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0.01)
    app.close()
    [said] = [each for each in caplog.records if job.id in each.getMessage()]
    assert said.levelno == logging.INFO
    assert said.getMessage().startswith(f"job {job.id}: it was canceled: the customer left; ")
    assert getattr(said, "job", None) == job.id
