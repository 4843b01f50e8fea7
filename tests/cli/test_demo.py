"""`mulligan demo`: the numbers add up, or it says so; nothing is left behind."""

import os
import select
import signal
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from mulligan.cli.demo.questions import POISON, REGIONS, waves
from mulligan.cli.demo.state import DemoState, Event
from mulligan.cli.demo.summary import summary
from mulligan.cli.demo.totals import totals
from mulligan.cli.demo.view import picture
from mulligan.cli.demo.workers import DemoWorkers, message_of
from mulligan.core.errors import MulliganError
from mulligan.core.job import Attempt
from tests.cli.command_line import process, read_until
from tests.cli.test_status_shape import JOB

FAILED = Attempt(1, 0, "US", "w", 10.0, "TimeoutError", "late", delay=2.0, ended_at=11.0)
DONE = replace(
    JOB, id="a", status="done", retry_count=1, worker_region="EU", started_at=13.5, worker=None
)
DEAD = replace(JOB, id="p", status="failed", worker=None)
LEDGER = ["a 1 1 US", "a 2 2 EU", "p 1 1 US"]


def processes_of(folder: str) -> list[str]:
    """The processes that were given this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if folder in path.read_text(errors="replace"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_everything_ends_well(tmp_path):
    with process(
        *("demo", "--plain", "--no-keep", "--seconds", "2", "--jobs", "30"), TMPDIR=str(tmp_path)
    ) as show:
        out, _ = show.communicate()
    assert show.returncode == 0, out
    assert "30 questions in" in out
    assert "29 done, 1 failed for good" in out
    assert f"{POISON} is tried again (attempt 2)" in out
    assert "its worker dies holding birch-long" in out
    assert "birch-long was held by a dead worker" in out
    assert "nothing lost, nothing twice" in out
    assert f"Dead letter {POISON}: ValueError: the question is empty, 5 attempts." in out
    assert list(tmp_path.glob("mulligan-demo-*")) == []
    assert processes_of(str(tmp_path)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_when_interrupted_it_stops_its_workers(tmp_path, number):
    with process("demo", "--plain", "--no-keep", TMPDIR=str(tmp_path)) as show:
        read_until(show, "questions arrive")
        show.send_signal(number)
        read_until(show, "interrupted; its workers are stopped")
        assert show.wait() == 130
    assert processes_of(str(tmp_path)) == []


def test_when_it_is_killed_its_workers_go_too(tmp_path):
    with process("demo", "--plain", "--no-keep", TMPDIR=str(tmp_path)) as show:
        read_until(show, "questions arrive")
        workers = [pid for pid in processes_of(str(tmp_path)) if pid != str(show.pid)]
        assert len(workers) == len(REGIONS)
        ends = [os.pidfd_open(int(pid)) for pid in workers]
        show.kill()
        for end in ends:
            assert select.select([end], [], [], 60)[0] == [end]
            os.close(end)


def test_retries_are_counted_with_their_waits():
    result = totals(["a", "p"], [(DONE, [FAILED]), (DEAD, [FAILED])], LEDGER, "p")
    assert result.problems == ()
    assert (result.jobs, result.done, result.retries, result.elsewhere) == (2, 1, 1, 1)
    assert (result.median_wait, result.longest_wait) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("enqueued", "stories", "ledger", "problem"),
    [
        (["a", "b"], [(DONE, [FAILED])], [], "lost or doubled jobs: ['b']"),
        (["a"], [(DONE, [FAILED])], ["a 1 1 US", "a 1 1 EU"], "a ran twice under token 1"),
        (["a"], [(DONE, [])], ["a 1 1 US", "a 2 1 EU"], "a started 2 times, and 1 attempts"),
        (["a"], [(replace(DONE, status="pending"), [FAILED])], [], "a is pending and should be"),
        (["p"], [(replace(DEAD, status="done"), [])], [], "p is done and should be failed"),
    ],
)
def test_numbers_that_do_not_add_up_are_told(enqueued, stories, ledger, problem):
    assert problem in "; ".join(totals(enqueued, stories, ledger, "p").problems)


def test_the_summary_ends_with_commands_to_try():
    result = totals(["a", "p"], [(DONE, [FAILED]), (DEAD, [FAILED])], LEDGER, "p")
    said = list(summary(result, "sqlite:////tmp/demo.db", 12.0))
    assert "  export MULLIGAN_STORE=sqlite:////tmp/demo.db" in said
    assert sum(line.endswith(("status", "job p", "jobs --text 'timed out'")) for line in said) == 3
    assert any("dead replay p" in line for line in said)
    gone = list(summary(result, None, 12.0))
    assert not any("export" in line or "replay" in line for line in gone)


def test_the_same_seed_asks_the_same_questions():
    assert waves(50, 7, 1.0) == waves(50, 7, 1.0) != waves(50, 8, 1.0)
    assert sum(len(wave.jobs) for wave in waves(50, 7, 1.0)) == 50


def test_events_are_told_in_words():
    told: list[Event] = []
    state = DemoState(REGIONS, 3, told.append)
    state.on_message("US", "job a: attempt 1 of task ask failed: TimeoutError: late")
    back = "back in queue questions after 0.1 minutes"
    state.on_message("EU", f"job a: {back}; attempt 2 starts from lane global-retry")
    state.on_message("EU", "job b: attempt 1 of task ask failed: Refused: the result was refused")
    state.dead_regions.add("EU")
    state.on_message("ASIA", "job c: worker x stopped beating; attempt 1 counts as failed")
    state.on_message("ASIA", "something else")
    state.on_message("US", "job p: attempt 5 of task ask failed: ValueError: empty")
    assert [event.text for event in told] == [
        "a failed: late (attempt 1)",
        "a is tried again (attempt 2), taken over from US",
        'b answered "Error": refused (attempt 1)',
        "c was held by a dead worker: due at once",
        "p failed: empty (attempt 5)",
        "p has no retry left: it is a dead letter now",
    ]
    assert (state.retries, state.elsewhere) == (1, 1)


@pytest.mark.parametrize("width", [80, 120])
def test_the_picture_fits_the_terminal(width):
    state = DemoState(REGIONS, 120, lambda _event: None)
    state.status = {
        "global_retry_queue_size": 3,
        "queues": {"q": {"done": 80, "failed": 1}},
        "regions": {
            "US": {
                "queue_size": 99,
                "retry_queue_size": 0,
                "current_job": {"job_id": "cobalt-q154", "retry_count": 1},
            }
        },
    }
    state.dead_regions.add("EU")
    state.add_event("US", "x" * 200)
    out = Console(width=width, record=True, force_terminal=True, file=StringIO())
    out.print(picture(state, width))
    text = out.export_text()
    assert all(len(line) <= width for line in text.splitlines())
    for words in ("99 wait", "running cobalt-q154 (retry)", "worker killed", "done 80 of 120"):
        assert words in text


async def test_a_worker_that_ends_by_itself_ends_the_demo(tmp_path):
    workers = DemoWorkers(
        {"MULLIGAN_DEMO_URL": f"sqlite:///{tmp_path}"}, lambda _region, _text: None
    )
    with pytest.raises(MulliganError, match="the worker of US did not start: error: "):
        await workers.start("US")
    with pytest.raises(MulliganError, match="the worker of US ended by itself"):
        workers.check()
    await workers.stop()


def test_lines_that_are_no_records_are_read_as_they_are():
    assert message_of('{"message": "hello"}') == "hello"
    assert message_of("[1]") == "[1]"
    assert message_of("Traceback") == "Traceback"
