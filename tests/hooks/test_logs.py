"""Lines that a task writes say which job it was: with `logging`, and with the real structlog."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider

from mulligan import Mulligan
from mulligan.cli.logs import JsonLines
from mulligan.contrib.logs import FIELDS, JobFilter, add_job_fields
from mulligan.contrib.opentelemetry import instrument
from tests.hooks.worker import worked

JOB = {"task": "call", "attempt": 1, "queue": "calls", "region": "default", "lane": "fresh"}


class Kept(logging.Handler):
    """Keeps records, and how they would be written."""

    def __init__(self, *filters: logging.Filter) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        for each in filters:
            self.addFilter(each)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept():
    """A handler with the filter, on the root logger as a user would have it."""
    handler, root = Kept(JobFilter()), logging.getLogger()
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)


async def run_both(app: Mulligan, say: Any) -> list[str]:
    """Run a coroutine and a plain function that say something; the ids of their jobs."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task(queue="calls", name="call")
    async def on_the_loop() -> None:
        say("from the loop")

    @app.task(queue="calls", name="call_plainly")
    def in_a_thread() -> None:
        say("from a thread")
        loop.call_soon_threadsafe(over.set)

    job = await on_the_loop.aenqueue()
    running = asyncio.ensure_future(worked(app, over))
    await job.aresult(timeout=60)
    other = await in_a_thread.aenqueue()
    await running
    return [job.id, other.id]


def app_of(tmp_path) -> Mulligan:
    return Mulligan(f"sqlite:///{tmp_path}/jobs.db")


async def test_records_of_a_task_have_the_fields_of_its_job(tmp_path, kept):
    log = logging.getLogger("shop")
    app = app_of(tmp_path)
    ids = await run_both(app, log.warning)
    said = {each.getMessage(): each for each in kept.records if each.name == "shop"}
    for words, job in zip(("from the loop", "from a thread"), ids, strict=True):
        found = {name: getattr(said[words], name) for name in ("job", "attempt", "queue", "lane")}
        assert found == {"job": job, "attempt": 1, "queue": "calls", "lane": "fresh"}
    log.warning("outside")
    assert not any(hasattr(kept.records[-1], name) for name in FIELDS)


async def test_fields_of_a_trace_come_with_those_of_the_job(tmp_path, kept):
    log = logging.getLogger("shop")
    app = app_of(tmp_path)
    instrument(app, TracerProvider(shutdown_on_exit=False))
    await run_both(app, log.warning)
    records = [each for each in kept.records if each.name == "shop"]
    assert len(records) == 2
    for each in records:
        assert len(vars(each)["trace_id"]) == 32
        assert len(vars(each)["span_id"]) == 16
        assert json.loads(JsonLines().format(each))["message"] == each.getMessage()


def test_what_a_record_says_itself_stays():
    record = logging.makeLogRecord({"job": "mine"})
    assert JobFilter().filter(record)
    assert vars(record)["job"] == "mine"


async def test_lines_of_structlog_have_the_fields_of_the_job(tmp_path):
    lines: list[str] = []

    class Writer:
        def info(self, line: str) -> None:
            lines.append(line)

    log = structlog.wrap_logger(
        Writer(),
        processors=[
            structlog.contextvars.merge_contextvars,
            add_job_fields,
            structlog.processors.add_log_level,
            structlog.processors.JSONRenderer(),
        ],
    )
    app = app_of(tmp_path)
    instrument(app, TracerProvider(shutdown_on_exit=False))
    ids = await run_both(app, lambda words: log.info(words, order=7, lane="mine"))
    first, second = map(json.loads, lines)
    assert (first["job"], second["job"]) == tuple(ids)
    assert {name: first[name] for name in JOB} == JOB | {"lane": "mine"}
    assert (first["event"], first["order"], first["level"]) == ("from the loop", 7, "info")
    assert len(first["trace_id"]) == 32
    assert first["trace_id"] != second["trace_id"]
    log.info("outside")
    assert json.loads(lines[-1]) == {"event": "outside", "level": "info"}


PAGE = Path(__file__).parents[2] / "docs/howto/observability.md"
SHOP = """
from mulligan import Mulligan

app = Mulligan("sqlite:///jobs.db")


@app.task
def ask(question: str) -> None:
    logging.getLogger("shop").warning("asked %s", question)
    structlog.get_logger().info("asked", question=question)


ask_first = ask.using(id="q1")
"""


@pytest.mark.slow
def test_the_lines_of_the_page_give_a_worker_these_logs(tmp_path):
    """A stranger's trial: what docs/howto/observability.md says, in a module, and a worker."""
    found = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [each for each in found if "contrib.logs" in each]
    assert len(lines) == 2
    (tmp_path / "shop.py").write_text("".join([*lines, SHOP]))
    run = partial(
        subprocess.run, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run([sys.executable, "-c", "import shop; shop.ask_first.enqueue('why')"], env=environment)
    worker = [sys.executable, "-m", "mulligan", "worker", "shop:app", "--log-format", "app"]
    done = run([*worker, "--idle-exit", "0.5"], env=environment)
    said = done.stderr.splitlines()
    assert "WARNING q1 asked why" in said
    assert "INFO - ready for jobs" in said
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    [asked] = [each for each in events if each["event"] == "asked"]
    assert (asked["job"], asked["task"], asked["question"]) == ("q1", "ask", "why")
    [ready] = [each for each in events if each["event"] == "ready"]
    assert "job" not in ready
