"""Tasks that no worker knows: waited for, as a newer release may know them; then dead letters."""

import asyncio
import sys

import pytest

from mulligan import Mulligan
from mulligan.core.decide import SNOOZE_LIMIT
from mulligan.core.job import NewJob, encode
from tests.cli.command_line import good
from tests.hostile.worker import QUICK, bare, ended, working

NAMES = ["os.system", "builtins:eval", "antigravity.fly", "a\nb"]


def asks_for(task: str, *args: object) -> NewJob:
    return NewJob(f"j {task!r}", "default", task, encode({"task": task, "args": args}))


async def test_a_task_is_looked_up_by_its_name_and_never_imported(app: Mulligan, tmp_path):
    witness = tmp_path / "witness"

    @app.task
    async def known() -> int:
        return 1

    jobs = [asks_for(name, f"touch {witness}") for name in NAMES]
    async with bare(app) as store, working(app):
        await store.enqueue(jobs)
        after = await known.aenqueue()
        assert (await ended(store, after.id)).status == "done"
        letters = [await ended(store, job.id) for job in jobs]
    for letter, name in zip(letters, NAMES, strict=True):
        assert letter.status == "failed"
        assert letter.retry_count == 0
        assert letter.snoozes == SNOOZE_LIMIT
        reason = f"no worker knows the task {name!r}; deploy one that does, then replay"
        assert letter.last_failure_reason == f"UnknownTask: {reason}"
    assert not witness.exists()
    assert "antigravity" not in sys.modules


def test_it_is_waited_for_as_long_as_a_rolling_deploy_takes():
    app = Mulligan("memory://")

    @app.task
    def known() -> int:
        return 1

    with app.testing() as t:
        t.run(t.store.enqueue([asks_for("newer")]))
        assert 290 <= t.drain() <= 310
    assert app.settings.unknown_task_delay * SNOOZE_LIMIT == pytest.approx(300)


def test_a_release_that_knows_it_runs_it():
    app = Mulligan("memory://")

    @app.task
    def known() -> int:
        return 1

    with app.testing() as t:
        t.run(t.store.enqueue([asks_for("newer")]))
        t.advance(60)

        @app.task
        def newer() -> int:
            return 2

        t.drain()
        assert app.job("j 'newer'").result() == 2


def test_the_command_line_shows_it_as_a_dead_letter(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Mulligan(url, settings=QUICK)

    @app.task
    async def known() -> int:
        return 1

    async def work() -> None:
        async with bare(app) as store, working(app):
            await store.enqueue([asks_for("os.system")])
            await ended(store, "j 'os.system'")

    asyncio.run(work())
    listed = good("dead", "list", "--store", url)
    assert "no worker knows the task 'os.system'" in listed
