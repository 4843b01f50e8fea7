"""Looking at a running system from a terminal: through its store, and through a server alike."""

import asyncio
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mulligan.cli import watch as watch_module
from mulligan.core.counts import Count, bucket
from mulligan.core.decide import decide
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.fleets import FleetState, KindState, note_key
from mulligan.core.health import CLOSED, Breaker
from mulligan.core.job import encode
from mulligan.core.outcome import Failed
from mulligan.core.worker import Worker
from tests.cli.command_line import (
    claim,
    do,
    fail,
    finish,
    good,
    good_json,
    new_job,
    process,
    refused,
    run,
)
from tests.server.process import server

TOKEN = "r" * 32
HOUR = 3600.0
LOOKS = ("top", "queues", "workers", "metrics")


async def fill(store) -> None:
    """US runs a job, one is to be retried in an hour, one failed; a breaker is open.

    Nothing of it changes by itself while the tests look.
    """
    await store.enqueue([new_job(name, region="US") for name in ("again", "dead", "done", "runs")])
    await store.enqueue([new_job("waits", region="US"), new_job("later", "calls", delay=900)])
    who = Worker("w-us", "US", ("mail",), lease=HOUR, concurrency=4)
    facts = (await store.beat(who, [])).facts
    plan = plan_claim(4, "US", [("mail", Carry())], facts)
    again, dead, done, _runs = (await store.claim(plan, who)).claims
    await fail(store, [dead])
    await finish(store, [done])
    await store.commit([decide(again, Failed("Busy", "later", delay=HOUR), facts, 0.0)])
    await count(store, "calls", "EU")
    await store.switch("mail", "US", CLOSED, Breaker(open=True))
    web = KindState(3, "depth 40", 2, 1, 0, 0, 40, 12.0, None, (), ())
    fleet = FleetState("shop", "host", 1, 100.0, 50.0, "running", {"web": web})
    await store.note(note_key("host", "shop"), encode(fleet), HOUR)


async def count(store, queue: str, region: str) -> None:
    """Count a few attempts: the last minute has some, however often this is done in it."""
    counts = {"started.fresh": 4, "succeeded": 1, "failed": 3, "saved": 1, "saved-seconds": 12.345}
    counts |= {f"retry-wait.{bucket(0.02)}": 2, "retry-wait.sum": 0.04}
    await store.count([Count(queue, region, name, float(n)) for name, n in counts.items()])


@pytest.fixture(scope="module")
def busy(tmp_path_factory) -> str:
    """The URL of a store in which much goes on."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/jobs.db"
    do(url, fill)
    return url


@pytest.fixture(scope="module")
def address(busy) -> Iterator[str]:
    """A server over it."""
    with server("--read-only", "--store", busy) as (found, _):
        yield found


@pytest.fixture(scope="module", params=["store", "server"])
def target(request, busy, address) -> str:
    """What the commands are asked about: the store, and the server over it."""
    return {"store": str(busy), "server": str(address)}[request.param]


@pytest.fixture(scope="module")
def guarded(busy, tmp_path_factory) -> Iterator[str]:
    """A server that wants a token."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"read {TOKEN}\nworker {'w' * 32}\n")
    tokens.chmod(0o600)
    with server("--read-only", "--store", busy, "--token-file", str(tokens)) as (found, _):
        yield found


@pytest.fixture
def lately(busy) -> None:
    """Attempts have been made within the last minute, however slow the tests before were."""
    do(busy, lambda store: count(store, "mail", "US"))


# -- what is shown ---------------------------------------------------------------------------


def test_top_prints_once_into_a_pipe(target, lately):
    said = good("top", "--store", target, COLUMNS="100")
    assert "1 of 1 workers live, 1 jobs run, 1 fresh and 0 retries wait" in said
    for line in (
        r"! the breaker of queue mail in region US has been open for",
        r"US +1 █+ +1 +0",
        r"mail +US +\d+ +25% +0 +- +- +≤0.025 s +12.3 s +open",
        r"mail +1 +0 +1 +1 +1 +1 +balanced",
        r"calls +0 +0 +1 +0 +0 +0 +balanced",
        r"w-us +US +yes +1/4",
        r"host/shop +web +2 +3 +depth 40",
    ):
        assert re.search(line, said), f"{line}\n{said}"


def test_top_keeps_numbers_whole_and_cuts_names_on_a_narrow_terminal(target, lately):
    said = good("top", "--store", target, COLUMNS="60")
    assert max(map(len, said.splitlines())) <= 60
    for number in ("25%", "≤0.025 s", "12.3 s", "1/4"):
        assert number in said


def test_top_of_an_empty_store_says_so(url):
    do(url, lambda store: store.facts())
    assert "0 of 0 workers live" in good("top", "--store", url)


def test_queues_show_what_waits_runs_has_ended_and_is_put_off(target):
    said = good("queues", "--store", target)
    assert re.search(r"mail +1 +0 +0 +1 +1 +1 +balanced", said)
    assert re.search(r"calls +1 +0 +1\b", said)
    found = good_json("queues", "--store", target)
    assert set(found) == {"queues", "delayed"}
    assert (found["queues"]["mail"]["running"], found["delayed"]["calls"]["total"]) == (1, 1)


def test_workers_show_who_works_where_and_what_supervisors_run(target):
    said = good("workers", "--store", target)
    assert re.search(r"w-us +US +mail +yes +1/4", said)
    assert "host/shop" in said
    found = good_json("workers", "--store", target)
    assert set(found) == {"workers", "fleets"}
    assert [each["id"] for each in found["workers"]] == ["w-us"]


def test_metrics_show_every_value(target):
    said = good("metrics", "--store", target)
    assert re.search(r"mulligan_retry_wait_seconds +queue=calls region=EU +2, mean 0.02 s", said)
    found = good_json("metrics", "--store", target)
    saved = found["mulligan_time_saved_seconds_total"]["samples"]
    assert {"labels": {"queue": "calls", "region": "EU"}, "value": 12.345} in saved


def test_a_store_and_its_server_show_the_same(busy, address):
    for look in ("queues", "workers"):
        through = [good_json(look, "--store", target) for target in (busy, address)]
        assert through[0].keys() == through[1].keys()
    metrics = [good_json("metrics", "--store", target) for target in (busy, address)]
    assert list(metrics[0]) == list(metrics[1])
    for name, metric in metrics[0].items():
        if metric["kind"] != "gauge":  # some of them change as time goes on
            assert metric == metrics[1][name], name
    watched = [json.loads(run_watch("dead", target)) for target in (busy, address)]
    for shown in watched:
        assert shown.pop("explanation").startswith("Failed for good")  # so many seconds ago
    assert watched[0] == watched[1]


@pytest.mark.parametrize("look", LOOKS)
def test_a_server_may_be_named_as_the_app(address, look):
    assert "mail" in good(look, address)


@pytest.mark.parametrize("look", LOOKS)
def test_an_app_and_a_server_together_are_refused(address, look):
    said = refused(2, look, "shop:app", "--store", address)
    assert "give one of them" in said


# -- watch -----------------------------------------------------------------------------------


def run_watch(job: str, target: str) -> str:
    return run("watch", job, "--json", "--store", target).stdout


def test_watch_of_an_ended_job_says_how_it_ended(target):
    ended = run("watch", "done", "--store", target)
    assert (ended.exit_code, len(ended.stdout.splitlines())) == (0, 1)
    assert "done" in ended.stdout
    failed = run("watch", "dead", "--store", target)
    assert failed.exit_code == 1
    assert "boom" in failed.stdout


def test_watch_as_json_has_no_payload(target):
    found = json.loads(run_watch("dead", target))
    assert (found["id"], found["status"], found["retry_count"]) == ("dead", "failed", 0)
    assert {"body", "args", "result"}.isdisjoint(found)


def test_watch_of_an_unknown_job_is_refused(target):
    assert refused(1, "watch", "nobody", "--store", target) == (
        "error: no job 'nobody' is stored there"
    )


def test_watch_tells_each_change_until_the_end(url, monkeypatch):
    """Every look finds the job one step further."""
    do(url, lambda store: store.enqueue([new_job("a")]))
    running = []

    async def start(store):
        running.extend(await claim(store, 1))

    async def give_up(store):
        await fail(store, running)

    async def nothing(store):
        pass

    steps = iter([nothing, start, nothing, give_up])

    async def meanwhile(_seconds: float) -> None:
        await asyncio.to_thread(do, url, next(steps))

    monkeypatch.setattr(watch_module, "pause", meanwhile)
    ended = run("watch", "a", "--store", url)
    assert ended.exit_code == 1
    told = [line.split()[2] for line in ended.stdout.splitlines()]
    assert told == ["pending", "processing", "failed"]


# -- servers that do not answer as they should --------------------------------------------------


@pytest.mark.parametrize("look", [*LOOKS, "watch"])
def test_a_server_that_is_down_is_told_in_words(look):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    said = refused(1, look, *(["a"] if look == "watch" else []), "--store", address)
    assert f"{address} cannot be reached" in said
    assert "check that `mulligan serve` runs there" in said


@pytest.mark.parametrize("look", LOOKS)
def test_a_token_is_taken_from_the_environment(guarded, look):
    assert good(look, guarded, MULLIGAN_TOKEN=TOKEN)


@pytest.mark.parametrize(("token", "status"), [("", 401), ("x" * 32, 401), ("w" * 32, 403)])
def test_a_wrong_token_is_told_how_to_be_right(guarded, token, status):
    for look in LOOKS:
        said = refused(1, look, guarded, MULLIGAN_TOKEN=token)
        assert f"{status}: set MULLIGAN_TOKEN to a token with the role read" in said


@pytest.mark.parametrize("look", LOOKS)
def test_a_path_that_is_no_server_is_told_so(address, look):
    assert "is no mulligan server" in refused(1, look, f"{address}/elsewhere")


# -- Ctrl-C ----------------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["store", "server"])
def test_ctrl_c_ends_top_with_0_and_gives_the_screen_back(busy, address, through):
    target = busy if through == "store" else address
    ours, theirs = pty.openpty()
    environment = {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    with on_terminal(theirs, "top", "--every", "0.1", "--store", target, **environment) as it:
        os.close(theirs)
        seen = read_terminal(ours, "w-us")
        it.send_signal(signal.SIGINT)
        seen += read_terminal(ours)  # to its end: a terminal that nobody reads stops who writes
        assert it.wait() == 0
    os.close(ours)
    assert "\x1b[?1049h" in seen
    assert "\x1b[?1049l" in seen
    assert "Traceback" not in seen


def test_ctrl_c_ends_watch_with_0(busy):
    with process("watch", "later", "--store", busy) as it:
        assert it.stdout is not None
        assert "pending" in it.stdout.readline()
        it.send_signal(signal.SIGINT)
        assert it.wait() == 0
        assert it.stdout.read() == ""


def on_terminal(terminal: int, *arguments: str, **environment: str):
    """A command whose output is a terminal."""
    return subprocess.Popen(
        [sys.executable, "-m", "mulligan", *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        text=True,
    )


def read_terminal(ours: int, text: str | None = None) -> str:
    """What the terminal shows, up to the text or the end."""
    seen = b""
    with suppress(OSError):  # the other side is closed
        while part := os.read(ours, 65_536):
            seen += part
            if text is not None and text.encode() in seen:
                break
    return seen.decode(errors="replace")


def test_every_look_is_documented():
    page = Path(__file__).parents[2].joinpath("docs/reference/cli.md").read_text()
    for look in (*LOOKS, "watch"):
        assert f"\n## mulligan {look}\n" in page
