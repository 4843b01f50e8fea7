"""`mulligan worker` as a process: signals, crashes, replacement, logs."""

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path

import pytest

from mulligan import Mulligan
from mulligan.cli import worker as worker_module
from mulligan.cli.logs import JsonLines, LibrariesWarn, TextLines
from mulligan.cli.worker import WorkerRun, announce
from mulligan.core.worker import Worker
from tests.cli import apps
from tests.cli.command_line import do, good, good_json, process, read_until, run

APP = "tests.cli.apps:filed"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """What a held job reads from: it goes on when the test writes."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def enqueue(url):
    """Enqueue a job of the app by the command line itself, as another process."""

    def send(*arguments: str) -> str:
        with process("enqueue", APP, *arguments, TEST_STORE=url) as sender:
            out, _ = sender.communicate()
            assert sender.returncode == 0, out
            return str(out).strip()

    return send


def worker(url: str, *options: str):
    """A worker process on the store."""
    return process("worker", APP, *options, TEST_STORE=url, PYTHONUNBUFFERED="1")


def job(url: str, name: str):
    """The job as it is now."""
    return do(url, lambda store: store.get(name))


def test_it_says_what_it_is_and_stops_when_told(url):
    with worker(url, "--region", "EU", "--queues", "default,more", "-c", "2") as started:
        lines = read_until(started, "ready for jobs")
        started.send_signal(signal.SIGTERM)
        lines += read_until(started, "stopped")
        assert started.wait() == 0
    banner = dict(line.split(maxsplit=1) for line in lines if line.startswith("  "))
    assert banner["app"] == APP
    assert banner["store"] == url
    assert banner["region"] == "EU"
    assert banner["queues"] == "default, more"
    assert banner["concurrency"] == "2"
    assert banner["tasks"] == "hold, outlive, quick"
    assert "Python" in banner["loop"]


def test_a_worker_of_an_app_without_tasks_says_what_may_be_missing(capsys):
    announce("shop.app:app", Mulligan("memory://"), Worker("w"), brief=False)
    assert "note: shop.app declares no task; import there" in capsys.readouterr().err


def test_a_worker_of_queues_that_no_task_has_says_which_ones_have_some(capsys):
    app = Mulligan("memory://")
    app.task(queue="mail")(print)
    for queues, is_told in ((("mial",), True), (("mail", "more"), False)):
        announce("shop.app:app", app, Worker("w", queues=queues), brief=False)
        told = "note: no task of shop.app:app is in queue mial; its queues are: mail\n"
        assert (told in capsys.readouterr().err) is is_told


def test_sigterm_lets_a_running_job_finish(url, fifo, enqueue):
    name = enqueue("hold", str(fifo))
    with worker(url) as started:
        read_until(started, "held by default, attempt 1")
        started.send_signal(signal.SIGTERM)
        read_until(started, "draining: 1 attempts")
        fifo.write_text("finished")
        read_until(started, "stopped")
        assert started.wait() == 0
    found = job(url, name)
    assert (found.status, found.value()) == ("done", "finished")


def test_a_second_signal_stops_at_once(url, fifo, enqueue):
    name = enqueue("hold", str(fifo))
    with worker(url) as started:
        read_until(started, "held by default, attempt 1")
        started.send_signal(signal.SIGINT)
        read_until(started, "draining: 1 attempts")
        started.send_signal(signal.SIGINT)
        read_until(started, "error: stopped before all jobs had ended")
        assert started.wait() == 1
    assert job(url, name).status == "processing"


def test_a_drain_that_takes_too_long_is_cut_off(url, fifo, enqueue):
    enqueue("hold", str(fifo))
    with worker(url, "--drain-timeout", "0.1") as started:
        read_until(started, "held by default, attempt 1")
        started.send_signal(signal.SIGTERM)
        read_until(started, "1 attempts are cut off")
        assert started.wait() == 1


def test_jobs_of_a_killed_worker_are_run_by_another(url, fifo, enqueue):
    name = enqueue("hold", str(fifo), "--region", "US")
    with worker(url, "--region", "US") as first, worker(url, "--region", "EU") as second:
        read_until(first, "held by US, attempt 1")
        read_until(second, "ready for jobs")
        first.kill()
        read_until(second, "held by EU, attempt 2")
        second.send_signal(signal.SIGTERM)
        read_until(second, "stopped")
        assert second.wait() == 0
    found = job(url, name)
    assert (found.status, found.value()) == ("done", "answered")
    history = do(url, lambda store: store.history(name))
    assert [(each.type, each.region) for each in history] == [("Lost", "US")]


def test_a_worn_worker_replaces_itself(url, enqueue):
    with worker(url) as started:
        read_until(started, "ready for jobs")
        enqueue("outlive")
        read_until(started, "draining to be replaced")
        read_until(started, "ready for jobs")
        enqueue("quick")
        read_until(started, "quick")
        started.send_signal(signal.SIGTERM)
        read_until(started, "stopped")
        assert started.wait() == 0


def test_logs_as_json_have_the_promised_keys(url, enqueue):
    with worker(url, "--log-format", "json", "--log-level", "info") as started:
        lines = read_until(started, "ready for jobs")
        started.send_signal(signal.SIGTERM)
        lines += read_until(started, "stopped")
    records = [json.loads(line) for line in lines]
    assert all(set(each) == {"time", "level", "logger", "message"} for each in records)
    assert records[0]["message"].startswith("worker ")
    assert records[0]["time"].endswith("Z")


def test_the_name_of_a_worker_is_shown_wherever_the_worker_is(url):
    options = ("--name", "till-1", "--log-format", "json")
    with worker(url, *options) as started:
        lines = read_until(started, "ready for jobs")
        while not (shown := good_json("status", "-s", url)["workers"]):
            pass  # it is shown from its first beat on
        assert [each["name"] for each in shown] == ["till-1"]
        for command in ("status", "workers", "top"):
            assert "till-1" in good(command, "-s", url)
        started.send_signal(signal.SIGTERM)
        lines += read_until(started, "stopped")
    records = [json.loads(line) for line in lines]
    assert {each["name"] for each in records} == {"till-1"}
    assert "name till-1" in records[0]["message"]


def test_a_worker_says_its_name_when_it_starts(capsys):
    announce("module:app", Mulligan("sqlite:///x.db"), Worker("w", name="till-1"), brief=False)
    assert "  name         till-1\n" in capsys.readouterr().err


def test_a_store_that_cannot_be_opened_ends_it_in_words(tmp_path):
    (tmp_path / "jobs.db").mkdir()
    with worker(f"sqlite:///{tmp_path}/jobs.db") as started:
        out, _ = started.communicate()
    assert started.returncode == 1
    assert "Traceback" not in out
    assert "error: " in out


async def test_a_worker_that_waits_for_its_store_stops_at_the_first_signal(monkeypatch):
    started = asyncio.Event()

    async def stuck(*_arguments):
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(worker_module, "work", stuck)
    run = WorkerRun(apps.app, Worker("w"))
    running = asyncio.ensure_future(run.run())
    await started.wait()
    run._told()
    await running
    assert not run.cut_off


async def test_a_worker_that_is_told_twice_while_nothing_runs_cuts_nothing_off(monkeypatch):
    ready = asyncio.Event()
    monkeypatch.setattr(worker_module, "report", lambda _state: ready.set())
    run = WorkerRun(apps.app, Worker("w", queues=("default",)))
    running = asyncio.ensure_future(run.run())
    await ready.wait()
    run._told()
    run._told()
    await running
    assert not run.cut_off


async def test_a_worker_whose_store_is_gone_stops_at_the_second_signal(monkeypatch):
    started = asyncio.Event()
    told = []

    class Stuck:
        def stop(self):
            told.append("stop")

    async def stuck(_app, _worker, ready):
        ready(Stuck())
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(worker_module, "work", stuck)
    monkeypatch.setattr(worker_module, "HURRY", 0.0)
    run = WorkerRun(apps.app, Worker("w"))
    running = asyncio.ensure_future(run.run())
    await started.wait()
    run._told()
    run._told()
    await running
    assert told == ["stop", "stop"]
    assert run.cut_off


def test_a_trace_is_part_of_its_record():
    try:
        int("odd")
    except ValueError:
        record = logging.LogRecord("x", 40, "f", 1, "it %s", ("broke",), sys.exc_info())
    fields = json.loads(JsonLines().format(record))
    assert fields["message"] == "it broke"
    assert fields["exception"].endswith("'odd'")
    lines = TextLines().format(record).splitlines()
    assert lines[0].endswith("error   it broke")
    assert lines[-1].startswith("  ValueError: ")


def record_of(name: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord(name, level, "f", 1, "something happened", (), None)


def test_libraries_write_their_warnings_only():
    lines = LibrariesWarn(own=["msgspec"])
    for name in ("click.core", "asyncio", "json.decoder"):
        assert not lines.filter(record_of(name))
        assert lines.filter(record_of(name, logging.WARNING))
    for name in ("root", "mulligan.worker", "tests.cli", "msgspec.json", "no.such.module"):
        assert lines.filter(record_of(name))


def test_a_level_that_the_app_has_set_for_a_library_stays_in_force(monkeypatch):
    lines = LibrariesWarn(own=())
    monkeypatch.setattr(logging.getLogger("click"), "level", logging.INFO)
    assert lines.filter(record_of("click.core.deep"))
    assert not lines.filter(record_of("asyncio"))


@pytest.mark.parametrize(("level", "said"), [("info", False), ("debug", True)])
def test_a_worker_writes_what_its_tasks_log_and_of_libraries_the_warnings(
    url, enqueue, level, said
):
    with worker(url, "--log-level", level) as started:
        read_until(started, "ready for jobs")
        enqueue("quick")
        lines = read_until(started, "a line of the task")
        started.send_signal(signal.SIGTERM)
        lines += read_until(started, "stopped")
    assert any("a library's line" in line for line in lines) is said
    assert any("a library's warning" in line for line in lines)


def test_a_worker_is_seen_by_the_other_commands(url):
    with worker(url, "--region", "EU") as started:
        read_until(started, "ready for jobs")
        good("migrate", "--store", url)
        with process("worker", APP, "--region", "US", TEST_STORE=url) as other:
            read_until(other, "ready for jobs")
            other.send_signal(signal.SIGTERM)
            read_until(other, "stopped")
        seen = good_json("status", "--store", url)["workers"]
        assert [each["region"] for each in seen if each["live"]] == ["EU"]
        said = run("copy", url, "memory://", "--yes")
        assert said.exit_code == 1
        assert "1 workers are alive" in said.stderr
