"""What a worker notes of attempts that take long, and what is said of slots that all wait."""

import asyncio
import json

import pytest

from mulligan import Mulligan, Settings
from mulligan.app.overview import measure
from mulligan.core.long_attempts import LONG_ATTEMPTS, read_long_attempts
from mulligan.engine import heartbeat, worker
from tests.cli.command_line import run
from tests.engine.test_on_every_store import LEASE, working
from tests.hostile.worker import bare


@pytest.fixture
def app(store_url, monkeypatch):
    for module in (heartbeat, worker):
        monkeypatch.setattr(module, "LOOK_EVERY", 0.05)
    made = Mulligan(store_url, settings=Settings(lease=LEASE, beat=0.1, concurrency=2))
    yield made
    made.close()


async def noted(store):
    """Wait for the note of the worker, and read it."""
    while not (found := read_long_attempts(await store.notes(LONG_ATTEMPTS))):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return found[0]


async def test_the_oldest_attempt_is_noted_measured_and_forgotten_when_it_has_ended(app):
    go_on = asyncio.Event()

    @app.task(queue="mail")
    async def long() -> None:
        await go_on.wait()

    async with bare(app) as store, working(app):
        job = await long.aenqueue()
        note = await noted(store)
        began = (await job.ainfo()).started_at
        assert note.oldest == {"mail": pytest.approx(began)}
        assert (note.waiting, note.is_stuck) == (0, False)
        [metric] = [each for each in await measure(store) if "oldest_attempt" in each.name]
        [sample] = metric.samples
        assert sample.labels == {"queue": "mail", "region": "default"}
        assert sample.value > 0
        go_on.set()
        await job.aresult(timeout=60)
        while await store.notes(LONG_ATTEMPTS):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_explain_and_doctor_say_that_all_slots_wait_for_jobs_without_a_slot(app, kind):
    @app.task
    async def child() -> int:
        return 1

    if kind == "coroutine":

        @app.task
        async def parent() -> object:
            return await (await child.aenqueue()).aresult()
    else:

        @app.task
        def parent() -> object:
            return child.enqueue().result()

    async with bare(app) as store, working(app):
        jobs = [await parent.aenqueue() for _ in range(2)]
        while not (note := await noted(store)).is_stuck:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert note.parent in [job.id for job in jobs]
        said = await app.job(note.child).aexplain()
        if not app.url.startswith("memory:"):
            code = await asyncio.to_thread(run, "doctor", "--store", app.url, "--json")
            findings = [each["sentence"] for each in good_findings(code)]
            waits = f"job {note.child} of queue default waits: all 2 slots of worker"
            assert any(each.startswith(waits) for each in findings), findings
        for job in jobs:
            await job.acancel("enough")
    assert "and all 2 slots of worker " in said
    assert f"such as {note.parent} for {note.child}; raise the concurrency" in said


def good_findings(answered):
    """The findings of `doctor --json`, whatever its exit code."""
    return json.loads(answered.stdout)["findings"]
