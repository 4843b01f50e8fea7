"""A trace that begins in one process and goes on in another, on SQLite."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.command_line import do, process, read_until

APP = "tests.tracing.apps:app"
PRODUCE = "from tests.tracing.apps import chain; print(chain.enqueue('why').id)"


def spans_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_producer_and_a_worker_write_one_trace(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    environment = {"TEST_STORE": url, "TEST_SPANS": str(tmp_path)}
    made = subprocess.run(
        [sys.executable, "-c", PRODUCE],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    with process("worker", APP, "--idle-exit", "3", **environment) as worker:
        read_until(worker, "stopped")
        assert worker.wait() == 0
    assert do(url, lambda store: store.get(f"{made.stdout.strip()}.2")).value() == "WHY!"
    spans = spans_in(tmp_path)
    assert len({span["context"]["trace_id"] for span in spans}) == 1
    [enqueue] = [span for span in spans if span["parent_id"] is None]
    assert enqueue["name"] == "enqueue default"
    attempts = [span for span in spans if span is not enqueue]
    assert {span["parent_id"] for span in attempts} == {enqueue["context"]["span_id"]}
    ended = [
        tuple(span["attributes"][f"messaging.mulligan.{name}"] for name in ("task", "outcome"))
        for span in attempts
    ]
    assert ended == [("ask", "retry"), ("ask", "done"), ("answer", "done")]


DIG = "from tests.tracing.apps import dig; print(dig.enqueue(3).id)"


def test_a_child_process_runs_and_logs_in_the_span_of_its_attempt(tmp_path):
    environment = {"TEST_STORE": f"sqlite:///{tmp_path}/jobs.db", "TEST_SPANS": str(tmp_path)}
    subprocess.run([sys.executable, "-c", DIG], env={**os.environ, **environment}, check=True)
    options = ("--idle-exit", "3", "--log-format", "json")
    with process("worker", APP, *options, **environment) as worker:
        lines = read_until(worker, "stopped")
    [said] = [json.loads(line) for line in lines if "digging 3" in line]
    [attempt] = [span for span in spans_in(tmp_path) if span["kind"] == "SpanKind.CONSUMER"]
    assert said["task"] == "dig"
    assert said["message"] == f"digging 3 in {said['span_id']}"
    assert f"0x{said['trace_id']}" == attempt["context"]["trace_id"]
    assert f"0x{said['span_id']}" == attempt["context"]["span_id"]
