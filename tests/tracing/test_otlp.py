"""`opentelemetry-instrument` sends traces and metrics of an app that does not know about it.

A stranger's trial: the app and the commands are those of observability.md, and what is sent
arrives at a receiver over real OTLP.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan import Mulligan
from mulligan.contrib.opentelemetry.instrumentor import MulliganInstrumentor
from tests.tracing.receiver import attributes_of, receiver

APP = """
from mulligan import Delays, Mulligan, Retry, current_job

app = Mulligan("sqlite:///jobs.db")

@app.task(queue="questions", retry=Retry(1, Delays((0.05,))))
def ask(question: str) -> str:
    if current_job().attempt == 1:
        raise ConnectionError("no line")
    return question.upper()
"""
PROGRAM = Path(sys.executable).with_name("opentelemetry-instrument")


def run(folder: Path, service: str, url: str, *command: str) -> None:
    environment = {
        **os.environ,
        "OTEL_SERVICE_NAME": service,
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_LOGS_EXPORTER": "none",
        "PYTHONPATH": str(folder),
    }
    done = subprocess.run(
        [str(PROGRAM), *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_producer_and_a_worker_that_know_nothing_of_it_send_one_trace(tmp_path):
    (tmp_path / "shop.py").write_text(APP)
    mulligan = str(Path(sys.executable).with_name("mulligan"))
    with receiver() as received:
        produce = "import shop; print(shop.ask.enqueue('why').id)"
        run(tmp_path, "web", received.url, sys.executable, "-c", produce)
        run(tmp_path, "jobs", received.url, mulligan, "worker", "shop:app", "--idle-exit", "1")
    assert received.services == {"web", "jobs"}
    by_name = {span.name: span for span in received.spans}
    assert set(by_name) == {"enqueue questions", "process questions"}
    sent = by_name["enqueue questions"]
    attempts = [span for span in received.spans if span.name == "process questions"]
    assert len(attempts) == 2
    assert {span.trace_id for span in received.spans} == {sent.trace_id}
    assert {link.span_id for span in attempts for link in span.links} == {sent.span_id}
    said = [attributes_of(span) for span in attempts]
    assert [each["messaging.mulligan.outcome"] for each in said] == ["retry", "done"]
    assert said[0]["error.type"] == "ConnectionError"
    [event] = attempts[0].events
    assert "no line" in attributes_of(event)["exception.stacktrace"]
    [point] = received.points("messaging.client.sent.messages")
    assert point.as_int == 1
    ran = received.points("messaging.process.duration")
    assert sum(point.count for point in ran) == 2


def test_the_instrumentor_gives_every_app_its_traces_and_takes_them_back(spans):
    before = Mulligan("memory://")
    instrumentor = MulliganInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    try:
        after = Mulligan("memory://")

        @after.task
        async def call() -> None: ...

        with after.testing() as t:
            call.enqueue()
            t.drain()
        assert [span.name for span in spans.all] == ["enqueue default", "process default"]
        assert before.tracing is not None
    finally:
        instrumentor.uninstrument()
    assert all(app.tracing is None for app in (before, after))
