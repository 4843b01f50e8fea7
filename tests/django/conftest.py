"""A project of Django's, with a backend of mulligan's on the store of the test."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from mulligan import Mulligan, MulliganError
from mulligan.app.worker import new_worker, work
from mulligan.contrib.django.compat import tasks
from mulligan.core.page import Selection
from tests.databases import plugin
from tests.django.project import postgres_database, project_on, set_up
from tests.store_kit import require

set_up()
BACKEND = "mulligan.contrib.django.Backend"
Make = Callable[..., Any]


@pytest.fixture
def backend() -> Iterator[Make]:
    """Makes the backend `default` with these OPTIONS; its app is closed in the end."""
    with ExitStack() as stack:

        def make(served: Any = (), /, **options: Any) -> Any:
            given = {"BACKEND": BACKEND, "QUEUES": list(served), "OPTIONS": options}
            stack.enter_context(override_settings(TASKS={"default": given}))
            made = tasks.task_backends["default"]
            stack.callback(made.app.close)
            return made

        yield make


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path: Path) -> Iterator[str]:
    """The URL of Django's default database, which has its tables."""
    require(request.param)
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path}/project.db"
        if request.param == "postgres":
            url = stack.enter_context(postgres_database(plugin.server_url("postgres")))
        stack.enter_context(project_on(url))
        yield url


@pytest.fixture
def project(tmp_path: Path) -> Iterator[str]:
    """The same on SQLite only."""
    url = f"sqlite:///{tmp_path}/project.db"
    with project_on(url):
        yield url


def work_off(app: Mulligan, *jobs: str) -> None:
    """Run a worker until these jobs have ended."""

    async def end(engine: Any) -> None:
        async with asyncio.timeout(60):
            for job in jobs:
                with suppress(MulliganError):
                    await app.job(job).aresult()
        await engine.events.told()
        engine.stop()

    async def run() -> None:
        ends: list[asyncio.Task[None]] = []
        me = new_worker(app, queues=["default", "mail"])
        await work(app, me, lambda engine: ends.append(asyncio.create_task(end(engine))))
        await asyncio.gather(*ends)

    asyncio.run(run())


def stored_in(app: Mulligan) -> list[str]:
    """The ids of all jobs of the app, newest first."""
    page = app.run(lambda: app.access.acall(lambda store: store.page(Selection(), 100)))
    return [job.id for job in page.jobs]
