"""What jobs say cannot forge a line of a log, move a cursor or clear a screen."""

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from rich.text import Text

from mulligan import Mulligan, Retry
from mulligan.app.overview import overview
from mulligan.cli.logs import JsonLines, TextLines
from mulligan.cli.show import console, table
from mulligan.cli.target import ServerTarget
from mulligan.cli.top import screen
from mulligan.core.counts import SUM, Count, FailureName, RuntimeName, bucket
from mulligan.core.job import Attempt, Claim, NewJob, encode
from mulligan.core.outcome import Dead
from mulligan.engine.job_log import log_failure, log_start
from mulligan.server.application import make_application
from mulligan.server.guard import Guard
from mulligan.server.service import Service
from mulligan.stores import make_store
from mulligan.stores.contract import Store
from tests.cli.command_line import claim, do, fail, good, process, read_until, refused, run

EVIL = "x\x1b[2J\x1b]0;owned\x07\r\nFORGED all is well\u2028\x9b31m"
CODES = ("\x1b", "\x07", "\x9b", "\r", "\u2028")


def is_clean(text: str) -> bool:
    return not any(code in text for code in CODES) and not any(
        line.startswith("FORGED") for line in text.splitlines()
    )


@pytest.fixture
def written():
    """What both formatters write of every line that is logged."""
    texts: list[str] = []

    class Both(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(TextLines().format(record))
            texts.append(JsonLines().format(record))

    handler, root = Both(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield texts
    root.setLevel(level)
    root.removeHandler(handler)


def test_lines_about_jobs_are_lines(written):
    evil = Claim(
        EVIL, 1, EVIL, EVIL, b"{}", EVIL, 0, EVIL, 0, 0.0, 1, 0, 0, EVIL, EVIL, 0.0, EVIL
    )  # fmt: skip
    log_start(evil)
    failure = Attempt(1, 0, EVIL, EVIL, 0.0, EVIL, EVIL, EVIL)
    log_failure(evil, Dead(evil.lease, failure))
    logging.getLogger("mulligan.worker").warning("job %s: %s", EVIL, EVIL)
    assert len(written) == 6
    for line in written:
        assert len(line.splitlines()) == 1, line
        assert is_clean(line)
    assert [json.loads(line)["job"] for line in written[1:4:2]] == [EVIL, EVIL]


def test_an_exception_of_a_task_is_written_as_words(written):
    app = Mulligan("memory://")

    @app.task(retry=Retry(1))
    def evil() -> None:
        raise ValueError(EVIL)

    with app.testing() as t:
        evil.enqueue()
        t.drain()
    about = [line for line in written if "FORGED" in line]
    assert len(about) >= 2
    assert all(is_clean(line) for line in about)


async def spoil(store: Store) -> None:
    """A job of which every text is evil, as a program writes it that nobody checks."""
    body = encode({"task": EVIL, "args": [EVIL, {EVIL: EVIL}], "kwargs": {}, "retry": Retry(1)})
    job = NewJob(EVIL, EVIL, EVIL, body, EVIL, fairness_key=EVIL, unique_key=EVIL)
    later = NewJob(f"{EVIL} 2", EVIL, EVIL, body, EVIL)
    ended = NewJob(f"{EVIL} 3", EVIL, EVIL, body, EVIL)
    await store.enqueue([job, later, ended])
    claims = await claim(store, 2, EVIL, EVIL, EVIL)
    await fail(store, claims[:1], EVIL)
    await store.cancel([claims[1].id], EVIL)


@pytest.fixture
def spoiled(tmp_path) -> str:
    url = f"sqlite:///{tmp_path}/jobs.db"
    do(url, spoil)
    return url


COMMANDS = [
    ["status"],
    ["queues"],
    ["workers"],
    ["metrics"],
    ["jobs"],
    ["jobs", "--status", "failed"],
    ["job", EVIL],
    ["explain", EVIL],
    ["explain", f"{EVIL} 3"],
    ["dead", "list"],
    ["history"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words)[:12])
def test_no_command_prints_a_control_code(spoiled, command):
    assert is_clean(good(*command, "--store", spoiled))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words)[:12])
def test_no_document_holds_a_control_code(spoiled, command):
    options = [] if command[0] == "history" else ["--json"]
    text = good(*command, *options, "--store", spoiled)
    assert is_clean(text)
    for document in text.splitlines() if command[0] == "history" else [text]:
        json.loads(document)


# What is a word of the API and not of a user, and so is shown in its own way.
WORDS = {"status", "kind", "priority", "lane", "level"}


def spoil_document(value: Any, key: str = "") -> Any:
    """The document of a hostile server: every text is evil, and every name that a user may give."""
    if isinstance(value, dict):
        return {
            each if each.islower() else EVIL: spoil_document(part, each)
            for each, part in value.items()
        }
    if isinstance(value, list):
        more = [EVIL] if key in ("alerts", "warnings") else []
        return [*(spoil_document(each, key) for each in value), *more]
    return EVIL if isinstance(value, str) and key not in WORDS else value


async def work_on(store: Store) -> None:
    """A job, a worker, a metric and a task that has run and failed."""
    await store.enqueue([NewJob("j", "mail", "send", encode({"task": "send", "args": []}))])
    await fail(store, await claim(store, 1), "no")
    buckets = [RuntimeName("failed", each, "send").written for each in (SUM, bucket(0.5))]
    names = (*buckets, FailureName(EVIL, "send").written)
    await store.count([Count("mail", "default", name, 1.0) for name in names])


ON_SERVERS = [["queues"], ["workers"], ["tasks"], ["metrics"], ["watch", "j"]]


@pytest.mark.parametrize(
    "command",
    [["top"], *ON_SERVERS, *([*each, "--json"] for each in ON_SERVERS)],
    ids=" ".join,
)
def test_a_hostile_server_reaches_no_terminal(tmp_path, monkeypatch, command):
    url = f"sqlite:///{tmp_path}/jobs.db"
    do(url, work_on)

    async def read(path: str) -> Any:
        store = make_store(url)
        await store.open()
        service = Service(store, Mulligan(url), Guard(None), declares=False)
        transport = httpx.ASGITransport(make_application(service), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.get(path)
        await store.close()
        return spoil_document(answer.json())

    monkeypatch.setattr(ServerTarget, "_ask", lambda _, path: asyncio.run(read(path)))
    shown = run(*command, "--store", "http://127.0.0.1:7341", COLUMNS="200").output
    assert "FORGED" in shown
    assert is_clean(shown)


def test_a_console_shows_codes_as_they_are_written_and_keeps_lines_and_colours():
    shown = console()
    codes = EVIL.replace("\r\n", "")
    with shown.capture() as captured:
        shown.print(Text.assemble((codes, "bold"), "\nsecond line"))
        shown.print(table(codes, ("name", "~text"), [(Text(codes, "red"), EVIL)]))
    assert captured.get().startswith("x\\x1b[2J\\x1b]0;owned")
    assert "\nsecond line\n" in captured.get()
    assert is_clean(captured.get())


def test_loop_watch_such_a_job_prints_none(spoiled):
    for options in ([], ["--json"]):
        result = run("watch", EVIL, *options, "--store", spoiled)
        assert "FORGED" in result.output
        assert is_clean(result.output)


def test_top_prints_none(spoiled, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    whole = do(spoiled, overview)
    shown = console()
    with shown.capture() as captured:
        shown.print(screen(whole, 160))
    assert "FORGED" in captured.get()
    assert is_clean(captured.get())


def test_the_stages_of_a_chain_print_none(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    flow = {"root": EVIL, "path": [EVIL, "b"], "then": [{"task": "b"}]}

    async def chain(store: Store) -> None:
        body = encode({"task": "a", "args": [], "kwargs": {}, "flow": flow, "retry": Retry(1)})
        await store.enqueue([NewJob(EVIL, "mail", "a", body)])
        await fail(store, await claim(store, 1), EVIL)

    do(url, chain)
    shown = good("job", EVIL, "--store", url)
    assert "Chain" in shown
    assert is_clean(shown)


def test_operating_on_such_jobs_prints_none(spoiled):
    for command in (
        ["dead", "replay", EVIL],
        ["cancel", EVIL],
        ["dead", "replay", "--queue", EVIL, "--yes"],
        ["dead", "purge", "--queue", EVIL, "--yes"],
    ):
        assert is_clean(good(*command, "--store", spoiled)), command
    for command in (["job", f"{EVIL}?"], ["cancel", f"{EVIL}?"], ["explain", f"{EVIL}?"]):
        assert is_clean(refused(1, *command, "--store", spoiled)), command


def test_names_in_errors_print_none():
    for command in (
        ["status", f"{EVIL}:app"],
        ["status", "--store", EVIL],
        ["pause", EVIL, "--store", "memory://"],
        [EVIL],
        ["jobs", f"--{EVIL}"],
        ["simulate", EVIL],
        ["worker", f"os:{EVIL}"],
    ):
        assert is_clean(refused(2, *command)), command


def test_a_worker_process_writes_lines(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    body = encode({"task": "outlive", "args": [], "kwargs": {}, "retry": Retry(0), "timeout": 0.05})

    async def one() -> None:
        store = make_store(url)
        await store.open()
        await store.enqueue([NewJob(EVIL, "default", "outlive", body)])
        await store.close()

    asyncio.run(one())
    arguments = ["worker", "tests.cli.apps:filed", "--idle-exit", "0.3"]
    with process(*arguments, TEST_STORE=url) as it:
        lines = read_until(it, "stopped")
    [failed] = [line for line in lines if "failed" in line]
    assert "FORGED" in failed
    assert is_clean("\n".join(lines))
