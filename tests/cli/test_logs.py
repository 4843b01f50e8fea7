"""JSON lines: what they say about jobs, and that no value can forge one."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from mulligan import Delays, Mulligan, Retry
from mulligan.cli.logs import JsonLines
from mulligan.engine.job_log import JOB_FIELDS
from mulligan.stores.memory import MemoryStore
from tests.cli.command_line import claim, gone, process, read_until
from tests.engine.real_engine import Faulty, ended, engine

DOCS = Path(__file__).parents[2] / "docs"
theirs = logging.getLogger("shop")


class Lines(logging.Handler):
    """Keeps what would be written."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.written: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(self.format(record))

    def about(self, text: str) -> dict[str, Any]:
        """The one line that contains the text, read."""
        [line] = [line for line in self.written if text in line]
        read: dict[str, Any] = json.loads(line)
        return read


@pytest.fixture
def lines():
    """Every line from debug on."""
    handler, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.setLevel(level)
    root.removeHandler(handler)


def test_lines_about_an_attempt_say_which_and_where(lines):
    app = Mulligan("memory://")
    errors = iter([OSError("no line"), None])

    @app.task(queue="calls", retry=Retry(1, Delays((90.0,))))
    async def call() -> None:
        if error := next(errors):
            raise error

    with app.testing(regions=("EU",)) as t:
        call.using(id="c-1", region="EU").enqueue()
        t.drain()
    first = {"job": "c-1", "task": "call", "attempt": 1, "queue": "calls", "region": "EU"}
    first |= {"lane": "fresh", "worker": "EU-0"}
    assert tuple(sorted(first)) == tuple(sorted(JOB_FIELDS))
    assert lines.about("starts from lane fresh").items() >= first.items()
    assert lines.about("no line").items() >= first.items()
    again = lines.about("after 1.5 minutes")
    assert again.items() >= (first | {"attempt": 2, "lane": "global-retry"}).items()


async def test_what_a_task_writes_itself_says_which_job_it_was(lines):
    app, store = Mulligan("memory://"), MemoryStore()
    app._memory = store

    @app.task
    async def on_the_loop() -> None:
        theirs.info("dialling")

    @app.task
    def in_a_thread() -> None:
        theirs.info("ringing")

    async with engine(app, store):
        one = await on_the_loop.aenqueue()
        two = await in_a_thread.aenqueue()
        await ended(store, one.id, two.id)
    assert lines.about("dialling")["job"] == one.id
    assert lines.about("ringing")["job"] == two.id
    assert lines.about("ringing")["logger"] == "shop"


async def test_a_line_about_a_lost_attempt_names_the_worker_that_lost_it(lines):
    app, store = Mulligan("memory://"), MemoryStore()
    app._memory = store

    @app.task(queue="calls")
    async def call() -> None: ...

    job = await call.aenqueue()
    await claim(store, 1, "calls", worker="dead")
    await gone(store, "dead")
    async with engine(app, store, name="alive"):
        await ended(store, job.id)
    reclaimed = lines.about("stopped beating")
    assert (reclaimed["job"], reclaimed["worker"]) == (job.id, "dead")


async def test_a_claim_whose_reply_is_lost_is_told_with_its_job(lines):
    app, store = Mulligan("memory://"), Faulty()
    app._memory = store

    @app.task
    async def call() -> None: ...

    job = await call.aenqueue()
    store.lose["claim"] = 1
    async with engine(app, store):
        await ended(store, job.id)
    assert lines.about("the reply to its claim was lost")["job"] == job.id


def test_a_line_about_no_job_has_no_field_of_one(lines):
    theirs.info("open for business")
    assert set(lines.about("open")) == {"time", "level", "logger", "message"}


FORGED = '\n{"level":"info","message":"all is well"}'
ENDS = ["\n", "\r\n", "\u2028", "\u2029", "\x85", "\x0b", "\x1b[2K", "\udcff"]


@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_no_value_can_begin_a_line_of_its_own(end):
    forged = f"{end}{FORGED}"
    record = logging.LogRecord("shop", logging.INFO, "f", 1, "it was %s", (forged,), None)
    record.job = record.queue = forged
    line = JsonLines().format(record)
    assert line.splitlines() == [line]
    assert line.isascii()
    assert line.isprintable()
    read = json.loads(line)
    assert read["message"] == f"it was {forged}"
    assert read["job"] == read["queue"] == forged


def test_a_worker_process_writes_one_object_a_line_whatever_jobs_say(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = "tests.cli.apps:filed"
    with process("enqueue", app, "outlive", "--id", "a\u2028b", TEST_STORE=url) as sender:
        assert sender.wait() == 0
    with process("worker", app, "--log-format", "json", "--idle-exit", "3", TEST_STORE=url) as it:
        written = read_until(it, '"stopped"')
    read = [json.loads(line) for line in written]
    [failed] = [line for line in read if "failed" in line["message"]]
    assert (failed["job"], failed["attempt"], failed["lane"]) == ("a\u2028b", 1, "fresh")
    assert failed["level"] == "error"


def test_every_key_is_documented():
    page = (DOCS / "howto/observability.md").read_text()
    for key in ("time", "level", "logger", "message", "exception", *JOB_FIELDS):
        assert re.search(rf"^\| `{key}` \|", page, re.MULTILINE), key
    assert "| `trace_id`, `span_id` |" in page
