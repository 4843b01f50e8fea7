"""A job is one trace: its enqueue, every attempt, and all that follows from it."""

import asyncio
import importlib
import json
import logging
import subprocess
import sys

import msgspec
import pytest
from msgspec import Raw
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, StatusCode

from mulligan import Delays, Fail, Mulligan, Retry, Snooze, each
from mulligan.cli.logs import JsonLines
from mulligan.contrib.opentelemetry import instrument
from mulligan.contrib.opentelemetry.traces import carrier_of
from mulligan.core.errors import StoreUnavailableError
from mulligan.core.job import NO_TRACE, NewJob, traced
from mulligan.core.page import Selection
from mulligan.engine.ticker import Ticker
from mulligan.stores.memory import MemoryStore
from tests.engine.real_engine import engine, found, until
from tests.tracing.conftest import context, is_child, said

TWICE = Retry(2, Delays((1.0, 1.0)))


@pytest.fixture
def flaky(app):
    """A task that fails at first."""
    failures = iter([OSError("the line is dead"), None])

    @app.task(queue="calls", retry=TWICE)
    async def call(number: str) -> str:
        if error := next(failures):
            raise error
        return number

    return call


def test_every_attempt_is_a_span_under_that_of_the_enqueue(app, flaky, spans):
    with app.testing(regions=("EU",)) as t:
        job = flaky.using(region="EU").enqueue("112")
        t.drain()
    [enqueue] = spans.sent("call")
    first, second = spans.attempts("call")
    assert is_child(first, enqueue)
    assert is_child(second, enqueue)
    assert enqueue.parent is None
    assert (enqueue.kind, first.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert said(enqueue, "task", "region", "created") == ["call", "EU", True]
    assert said(first, "attempt", "region", "lane", "outcome") == [1, "EU", "fresh", "retry"]
    assert said(second, "attempt", "lane", "outcome") == [2, "global-retry", "done"]
    for span in spans.all:
        assert span.attributes is not None
        assert span.attributes["messaging.message.id"] == job.id
        assert span.attributes["messaging.destination.name"] == "calls"


def test_a_failed_attempt_records_its_error_and_the_delay(app, flaky, spans):
    with app.testing() as t:
        flaky.enqueue("112")
        t.drain()
    first, second = spans.attempts("call")
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description == "OSError: the line is dead"
    [event] = first.events
    recorded = dict(event.attributes or {})
    stacktrace = str(recorded.pop("exception.stacktrace"))
    assert recorded == {
        "exception.type": "OSError",
        "exception.message": "the line is dead",
    }
    assert stacktrace.startswith("Traceback (most recent call last):\n")
    assert stacktrace.endswith("OSError: the line is dead\n")
    assert said(first, "delay") == [1.0]
    assert second.status.status_code is StatusCode.UNSET


def test_json_lines_of_an_attempt_have_the_ids_of_its_trace_and_span(app, flaky, spans, caplog):
    written: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(JsonLines().format(record))

    handler, log = Lines(), logging.getLogger("mulligan.worker")
    log.addHandler(handler)
    try:
        with app.testing() as t:
            flaky.enqueue("112")
            t.drain()
    finally:
        log.removeHandler(handler)
    [line] = [json.loads(line) for line in written if "failed" in line]
    ids = context(spans.attempts("call")[0])
    assert line["trace_id"] == format(ids.trace_id, "032x")
    assert line["span_id"] == format(ids.span_id, "016x")
    assert "trace_id" not in json.loads(JsonLines().format(caplog.records[0])), "none is current"


def test_the_outcome_of_each_attempt_is_said(app, spans):
    signals = iter([Snooze(1), Fail("no such number")])

    @app.task
    async def call() -> None:
        raise next(signals)

    with app.testing() as t:
        call.enqueue()
        t.drain()
    assert [said(span, "outcome")[0] for span in spans.attempts("call")] == ["later", "failed"]


def test_each_job_of_a_batch_has_a_trace_of_its_own(app, spans):
    @app.task
    async def call(number: int) -> None: ...

    with app.testing() as t:
        app.enqueue_many(call.call(number) for number in range(3))
        t.drain()
    created = spans.sent("call")
    ran = spans.attempts("call")
    assert all(is_child(span, one) for span, one in zip(ran, created, strict=True))
    assert len({context(span).trace_id for span in created}) == 3


def test_a_trace_goes_on_from_the_span_of_the_producer(app, spans):
    @app.task
    async def call() -> None: ...

    tracer = spans.provider.get_tracer("shop")
    with app.testing() as t:
        with tracer.start_as_current_span("order") as order:
            call.enqueue()
        t.drain()
    assert spans.traces == 1
    assert is_child(spans.sent("call")[0], order)


def test_spans_of_the_task_itself_lie_under_its_attempt(app, spans):
    tracer = spans.provider.get_tracer("shop")

    @app.task
    async def inner() -> None: ...

    @app.task
    async def outer() -> None:
        with tracer.start_as_current_span("query"):
            pass
        await inner.aenqueue()

    with app.testing() as t:
        outer.enqueue()
        t.drain()
    [attempt] = spans.attempts("outer")
    assert is_child(spans.named("query")[0], attempt)
    assert is_child(spans.sent("inner")[0], attempt)
    assert spans.traces == 1


async def test_a_plain_function_in_its_thread_sees_the_span_of_its_attempt(spans):
    store = MemoryStore()
    app = Mulligan("memory://")
    app._memory = store
    instrument(app, spans.provider)
    seen = []

    @app.task
    def call() -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)

    async with engine(app, store):
        job = await call.aenqueue()

        async def is_done() -> bool:
            return (await found(store, job.id)).status == "done"

        await until(is_done)
    [attempt] = spans.attempts("call")
    assert seen == [context(attempt).span_id]


# -- what follows from a job ------------------------------------------------------------------


def test_a_chain_with_a_fan_out_and_a_sink_is_one_trace(app, spans):
    @app.sink
    async def save(result: int, *, key: str) -> None: ...

    @app.task
    async def split(text: str) -> list[str]:
        return text.split()

    @app.task
    async def length(word: str) -> int:
        return len(word)

    @app.task(sink=save)
    async def total(lengths: list[int]) -> int:
        return sum(lengths)

    with app.testing() as t:
        chain = (split | each(length) | total).enqueue("a bc def")
        t.drain()
        assert chain.result() == 6
    assert spans.traces == 1
    [enqueue] = spans.sent("split")
    ran = [str(said(span, "task")[0]) for span in spans.all if is_child(span, enqueue)]
    assert sorted(ran) == ["length", "length", "length", "save", "split", "total"]


def test_what_is_gathered_is_one_trace(app, spans):
    @app.task
    async def length(word: str) -> int:
        return len(word)

    @app.task
    async def total(lengths: list[int]) -> int:
        return sum(lengths)

    with app.testing() as t:
        app.gather((length.call(word) for word in ("a", "bc")), total)
        t.drain()
    [enqueue] = [span for span in spans.all if span.kind is SpanKind.PRODUCER]
    assert enqueue.name == "enqueue default"
    assert (enqueue.attributes or {})["messaging.batch.message_count"] == 3
    assert spans.traces == 1


def test_who_is_told_of_a_dead_letter_is_in_its_trace(app, spans):
    @app.task
    async def tell(letter: dict[str, object]) -> None: ...

    @app.task(on_dead=tell, retry=Retry(0))
    async def call() -> None:
        raise OSError

    with app.testing() as t:
        call.enqueue()
        t.drain()
    assert spans.traces == 1
    assert is_child(spans.attempts("tell")[0], spans.sent("call")[0])


# -- edges -------------------------------------------------------------------------------------


def test_a_job_that_was_there_before_is_said_not_to_be_created(app, spans):
    @app.task
    async def call() -> None: ...

    with app.testing() as t:
        call.using(id="once", delay=60).enqueue()
        call.using(id="once", delay=60).enqueue()
        t.drain()
    assert [said(span, "created")[0] for span in spans.sent("call")] == [True, False]
    [attempt] = spans.attempts("call")
    assert is_child(attempt, spans.sent("call")[0])


async def test_an_enqueue_that_fails_is_recorded(app, spans, monkeypatch):
    @app.task
    async def call() -> None: ...

    async def away(_job: object) -> None:
        raise StoreUnavailableError("the store is away")

    monkeypatch.setattr(app.access, "aenqueue", away)
    with pytest.raises(StoreUnavailableError):
        await call.aenqueue()
    [enqueue] = spans.sent("call")
    assert enqueue.status.status_code is StatusCode.ERROR
    assert enqueue.status.description == "the store is away"


async def test_an_attempt_that_is_cut_off_says_so(spans):
    store = MemoryStore()
    app = Mulligan("memory://")
    app._memory = store
    instrument(app, spans.provider)
    running = asyncio.Event()

    @app.task
    async def call() -> None:
        running.set()
        await asyncio.Event().wait()

    async with engine(app, store) as made:
        await call.aenqueue()
        await running.wait()
        made.stop()
        made.stop()
    [attempt] = spans.attempts("call")
    assert said(attempt, "outcome") == ["cut off"]


async def test_the_trace_of_a_periodic_job_begins_where_a_worker_places_it(app, spans):
    @app.task(every=60)
    async def clean() -> None: ...

    store = MemoryStore()
    await Ticker(store, app.declared_schedules, "w", tracing=app.tracing).look()
    [job] = (await store.page(Selection(), 10)).jobs
    [enqueue] = spans.sent("clean")
    assert f"{context(enqueue).trace_id:032x}" in carrier_of(job.body)["traceparent"]


@pytest.mark.parametrize(
    "trace_context", [b"5", b'"00-1-2-3"', b'{"traceparent":5}', b'{"traceparent":"bad"}', b"{}"]
)
def test_a_trace_that_cannot_be_read_begins_anew(app, spans, trace_context):
    @app.task
    async def call() -> None: ...

    with app.testing() as t:
        job = traced(call.call().job, Raw(trace_context))
        t.run(t.store.enqueue([job]))
        t.drain()
    [attempt] = spans.attempts("call")
    assert attempt.parent is None


def test_a_job_without_a_trace_is_left_as_it_is():
    job = NewJob("a", "q", "call", b'{"task":"call"}')
    assert traced(job, NO_TRACE) is job
    assert carrier_of(job.body) == {}


def test_without_a_provider_that_records_bodies_carry_nothing():
    app = Mulligan("memory://")
    instrument(app, trace.NoOpTracerProvider())

    @app.task
    async def call() -> None: ...

    with app.testing() as t:
        call.enqueue()
        t.drain()
        assert "trace" not in msgspec.json.decode(t.jobs()[0].body)


def test_a_producer_that_is_not_sampled_leaves_its_attempts_unsampled(spans):
    app = Mulligan("memory://")
    instrument(app, TracerProvider(ParentBased(ALWAYS_OFF), shutdown_on_exit=False))

    @app.task
    async def call() -> None: ...

    assert app.tracing is not None
    with app.tracing.enqueuing([call.call().job]) as (jobs, _):
        instrument(app, spans.provider)
    with app.testing() as t:
        t.run(t.store.enqueue(jobs))
        t.drain()
        assert [job.status for job in t.jobs()] == ["done"]
    assert spans.all == ()


def test_where_it_is_not_installed_it_says_how_to_install_it(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for name in [name for name in sys.modules if name.startswith("mulligan.contrib.open")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'mulligan\[otel\]'"):
        importlib.import_module("mulligan.contrib.opentelemetry")


def test_nothing_is_imported_unless_it_is_wanted():
    code = "import sys, mulligan, mulligan.cli.worker; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
