"""What a terminal's encoding has no character for fails no command."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.cli.command_line import APP, claim, do, fail, new_job, run_all
from tests.cli.test_top import on_terminal, read_terminal
from tests.server.process import server

ODD = "Ωμέγα→€"
LATIN = {"PYTHONIOENCODING": "latin-1"}
OTHERS = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]
COMMANDS = [
    ("status",), ("status", "--json"), ("queues",), ("workers",), ("metrics",),
    ("jobs",), ("job", ODD), ("job", ODD, "--json"), ("explain", ODD), ("dead", "list"),
    ("doctor",), ("doctor", "--json"), ("migrate",), ("history",), ("pause", ODD), ("resume", ODD),
    ("top",), ("watch", ODD), ("cancel", "waiting"), ("dead", "replay", ODD),
]  # fmt: skip
WITHOUT_A_STORE = [
    ("--help",), ("settings",), ("simulate", "timeline-1"), ("enqueue", APP, "nothing"),
    ("status", APP + "→"), ("demo", "--plain", "--seconds", "1", "--jobs", "20", "--no-keep"),
    ("bench", "--help"),
    *((name, "--help") for name in ("worker", "serve", "supervise", "copy")),
]  # fmt: skip


@pytest.fixture
def url(tmp_path):
    """A store with a dead letter and a job that nobody serves, whose names few encodings have."""
    url = f"sqlite:///{tmp_path}/jobs.db"

    async def fill(store):
        await store.open()
        await store.enqueue([new_job(ODD, ODD, region=ODD)])
        await fail(store, await claim(store, 1, ODD, ODD), f"no {ODD}")
        await store.enqueue([new_job("waiting", ODD, region="nowhere→")])

    do(url, fill)
    return url


def ended_well(words, environment):
    """Run it as a process of its own: it ends by its own rules, and says so without a traceback."""
    done = python("-m", "mulligan", *words, **environment)
    check(words, done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1"))


def all_ended_well(commands, environment):
    """Run each, all in forks of one process, since to start one takes longer than most of them."""
    ended = run_all(commands, without_locale() | environment)
    for words, each in zip(commands, ended, strict=True):
        check(words, *each)


def python(*words, **environment):
    return subprocess.run(
        [sys.executable, *words],
        env=without_locale() | environment,
        capture_output=True,
        check=False,
        timeout=120,
    )


def without_locale():
    return {name: value for name, value in os.environ.items() if not name.startswith("LC_")}


def check(words, code, output, errors):
    # A worker logs that of a task that failed.
    assert errors.count("Traceback") == errors.count("in fail"), (words, errors)
    assert "UnicodeEncodeError" not in errors, (words, errors)
    assert code in (0, 1, 2), (words, errors)
    assert output or errors, words


def test_no_command_fails_where_a_stream_is_latin_1(url):
    on_the_store = [(*words, "--store", url) for words in COMMANDS]
    all_ended_well([*on_the_store, *WITHOUT_A_STORE], LATIN)


def test_a_worker_logs_what_the_encoding_has_no_character_for(url):
    ended_well(("worker", "tests.cli.odd:app", "--idle-exit", "0.1"), LATIN | {"TEST_STORE": url})


def test_copy_names_stores_that_it_has_no_character_for(url, tmp_path):
    ended_well(("copy", url, f"sqlite:///{tmp_path}/{ODD}.db", "--yes"), LATIN)


def test_a_fleet_is_checked_and_shown(tmp_path):
    fleet = tmp_path / f"{ODD}.toml"
    fleet.write_text(f'[fleet]\napp = "tests.cli.odd:app"\n[kinds."{ODD}"]\nqueues = ["{ODD}"]\n')
    all_ended_well([("supervise", str(fleet), each) for each in ("--check", "--status")], LATIN)


def test_a_server_and_a_live_top_go_on(url):
    with server("--store", url, **LATIN) as (address, serving):
        ended_well(("top", address), LATIN)
        serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 0
    ours, theirs = pty.openpty()
    with on_terminal(theirs, "top", "--every", "0.1", "--store", url, **LATIN) as it:
        os.close(theirs)
        seen = read_terminal(ours, "workers live")
        it.send_signal(signal.SIGINT)
        seen += read_terminal(ours)
        assert it.wait(60) == 0
    os.close(ours)
    assert "Traceback" not in seen


@pytest.mark.parametrize("environment", OTHERS, ids=["ascii", "C"])
def test_nor_where_it_has_less(url, environment):
    commands = (("doctor",), ("jobs",), ("job", ODD), ("status",), ("explain", ODD))
    all_ended_well([(*words, "--store", url) for words in commands], environment)
