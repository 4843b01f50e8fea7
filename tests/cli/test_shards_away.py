"""Commands while a shard is away: they show the rest, and say which one it is."""

from typing import Any

import pytest

from mulligan import Mulligan
from mulligan.core.errors import StoreUnavailableError
from mulligan.stores.sqlite import SqliteStore
from tests.cli.command_line import run


@pytest.fixture(params=[0, 2])
def away(request, tmp_path, monkeypatch) -> tuple[str, str]:
    """The URL of an app with a job in each of four shards, and what is said of the one away."""
    url = f"sqlite:///{tmp_path}/jobs.db?shards=4"
    app: Any = Mulligan(url)
    ask = app.task(lambda: 1, name="ask")
    app.enqueue_many([ask.call() for _ in range(4)])
    app.close()
    broken = "jobs.db" if request.param == 0 else f"jobs-{request.param}.db"
    opened = SqliteStore.open

    async def open_but_one(store: SqliteStore, *, read_only: bool = False) -> None:
        if store.url.endswith(f"/{broken}"):
            raise StoreUnavailableError("nobody answers")
        await opened(store, read_only=read_only)

    monkeypatch.setattr(SqliteStore, "open", open_but_one)
    said = f"shard {request.param} (sqlite:///{tmp_path}/{broken}) is away: nobody answers;"
    return url, said


@pytest.mark.parametrize(
    "command", ["jobs", "dead list", "queues", "workers", "tasks", "metrics", "limits list"]
)
def test_what_is_without_the_jobs_of_a_shard_says_so_on_stderr(away, command):
    url, said = away
    shown = run(*command.split(), "--store", url)
    assert shown.exit_code == 0, shown.output
    assert shown.stderr.startswith(said)
    assert said not in shown.stdout


def test_status_and_doctor_say_it_themselves(away):
    url, said = away
    status = run("status", "--store", url, "--json")
    assert (status.exit_code, status.stderr) == (0, "")
    assert said in status.stdout
    doctor = run("doctor", "--store", url)
    assert (doctor.exit_code, doctor.stderr) == (1, "")
    assert said.rstrip(";") in doctor.stdout
    assert "3 jobs of queue default" in doctor.stdout
