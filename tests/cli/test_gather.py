"""`mulligan gather`: many jobs as one, from a shell."""

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner

from mulligan import Fail, Failure, Mulligan
from mulligan.app.worker import new_worker
from mulligan.app.worker import work as serve
from mulligan.cli import cli


@pytest.fixture
def app(tmp_path):
    made: Any = Mulligan(f"sqlite:///{tmp_path}/jobs.db")
    made.broken = True

    @made.task
    async def fetch(url: str) -> str:
        if made.broken and url == "bad":
            raise Fail("no route")
        return url

    @made.task
    async def report(pages: list[str | Failure]) -> int:
        return len(pages)

    @made.task
    async def strict(pages: list[str]) -> int:
        return len(pages)

    yield made
    made.close()


def run(app, *arguments, code=0):
    answer = CliRunner().invoke(cli, ["gather", *arguments, "--store", app.url])
    assert answer.exit_code == code, answer.output
    return answer.output


def work(app):
    """Run everything that can start."""

    async def until_idle():
        async def watch(engine):
            async with app.connected():
                while True:
                    stats = await app.access.acall(lambda store: store.stats())
                    if not stats.running and not any(lane.ready for lane in stats.lanes):
                        break
                    await asyncio.sleep(0.02)
            engine.stop()

        tasks = []
        await serve(app, new_worker(app), lambda e: tasks.append(asyncio.ensure_future(watch(e))))
        await asyncio.gather(*tasks)

    asyncio.run(until_idle())


def test_a_gather_that_waits_for_a_failed_member_is_shown_and_replayed(app):
    task = app.tasks
    whole = app.gather(
        [task["fetch"].call("one"), task["fetch"].call("bad")], task["strict"], id="day"
    )
    work(app)
    shown = run(app, "day.2")
    assert "2 of 2 ended: 1 done, 1 failed, 0 cancelled; 0 open" in shown
    assert "no route" in shown
    assert "mulligan gather day.2 replay" in " ".join(shown.split())
    told = json.loads(run(app, "day.1.1", "--json"))
    assert (told["id"], told["done"], told["failed"], told["open"]) == ("day.2", 1, 1, 0)
    [failure] = told["failures"]
    assert (failure["index"], failure["job"], failure["attempts"]) == (1, "day.1.1", 1)
    assert failure["reason"] == "no route"
    app.broken = False
    assert "Replayed 1 jobs." in run(app, "day.2", "replay")
    work(app)
    assert whole.result(timeout=5) == 2
    assert "nothing to replay" in run(app, "day.2", "replay", code=1)


def test_a_gather_is_cancelled_as_one(app):
    fetch = app.tasks["fetch"].using(delay=60)
    app.gather(
        [fetch.call("one"), fetch.call("two")],
        app.tasks["report"],
        id="day",
        return_exceptions=True,
    )
    told = json.loads(run(app, "day.2", "cancel", "--json", "--reason", "enough"))
    assert (told["changed"], told["status"]) == (3, "cancelled")
    assert "2 of 2 ended: 0 done, 0 failed, 2 cancelled; 0 open" in run(app, "day.2")
    assert "nothing to cancel" in run(app, "day.2", "cancel", code=1)


def test_a_job_that_gathers_nothing_is_refused(app):
    job = app.tasks["fetch"].enqueue("one")
    assert "gathers no others" in run(app, job.id, code=2)
    assert "no job 'nobody' is stored" in run(app, "nobody", code=1)
