"""A stranger's schedules, written from schedules.md and cli.md alone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.prove

SHOP = """
from mulligan import Mulligan, current_job

app = Mulligan("sqlite:///shop.db")


@app.task
def report(customer: int) -> None:
    with open("reports", "a") as file:
        print(current_job().id, customer, file=file)


@app.task(every=3600)
def tidy() -> None: ...
"""


def mulligan(folder: Path, *words: str, code: int = 0) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "mulligan", *words, "--app", "shop:app"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stderr if code else done.stdout


@contextmanager
def worker(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker of the stranger's app, which is stopped in the end."""
    command = [sys.executable, "-m", "mulligan", "worker", "shop:app"]
    with (
        (folder / "log").open("ab") as log,
        subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


def until(is_so: Callable[[], bool]) -> None:
    """Wait for it; the test's own timeout ends what never comes."""
    while not is_so():
        time.sleep(0.1)


def test_schedules_tick_once_through_edits_pauses_and_a_kill(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "reports").touch()

    def reports() -> list[tuple[str, str]]:
        lines = (tmp_path / "reports").read_text().splitlines()
        return [(line.split()[0], line.split()[1]) for line in lines]

    with worker(tmp_path) as doomed, worker(tmp_path):
        mulligan(tmp_path, "schedules", "put", "often", "report", "7", "--every", "1")
        until(lambda: len(reports()) >= 3)
        os.kill(doomed.pid, signal.SIGKILL)
        seen = len(reports())
        until(lambda: len(reports()) >= seen + 3)
        mulligan(tmp_path, "schedules", "put", "often", "report", "8", "--every", "1")
        until(lambda: reports()[-1][1] == "8")
        mulligan(tmp_path, "schedules", "pause", "often")
        listed = json.loads(mulligan(tmp_path, "schedules", "list", "--json"))["schedules"]
        states = {each["name"]: each["state"] for each in listed}
        assert states == {"often": "paused", "tidy": "active"}
        job = json.loads(mulligan(tmp_path, "schedules", "run-now", "often", "--json"))["id"]
        until(lambda: any(name == job for name, _ in reports()))

    names = [name for name, _ in reports()]
    assert len(names) == len(set(names)), "a tick ran twice"
    customers = [customer for _, customer in reports()]
    assert customers == sorted(customers), "a tick of the old call ran after the edit"
    mulligan(tmp_path, "schedules", "remove", "often")
    listed = json.loads(mulligan(tmp_path, "schedules", "list", "--json"))["schedules"]
    assert [each["name"] for each in listed] == ["tidy"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["put", "never", "report", "7", "--cron", "0 0 30 2 *"], "0 0 30 2 *"),
        (["put", "zone", "report", "7", "--cron", "0 9 * * *", "--timezone", "Mars"], "Mars"),
        (["put", "quick", "report", "7", "--every", "0.1"], "every"),
        (["put", "other", "invoice", "--every", "60"], "invoice"),
        (["put", "wrong", "report", "--every", "60"], "customer"),
        (["pause", "nobody"], "nobody"),
    ],
)
def test_what_cannot_tick_is_refused_and_says_why(tmp_path, words, said):
    (tmp_path / "shop.py").write_text(SHOP)
    mulligan(tmp_path, "migrate")
    error = mulligan(tmp_path, "schedules", *words, code=1 if words[0] == "pause" else 2)
    assert error.startswith("error: ")
    assert said in error
    assert "Traceback" not in error
    assert json.loads(mulligan(tmp_path, "schedules", "list", "--json"))["schedules"] == []
