"""Spans and metrics are as the semantic conventions for messaging say, version 1.44."""

import re
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import SpanKind, StatusCode

from mulligan import Delays, Fail, Mulligan, Retry
from mulligan.contrib.opentelemetry import instrument
from mulligan.contrib.opentelemetry.attributes import server_attributes, type_of
from mulligan.core.errors import StoreUnavailableError
from mulligan.stores.memory import MemoryStore
from tests.tracing.conftest import context, is_child

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
# What the conventions call an operation type, and the kind of span that each asks for.
KINDS = {"create": SpanKind.PRODUCER, "send": SpanKind.PRODUCER, "process": SpanKind.CONSUMER}
NAMES = re.compile(
    r"error\.type|server\.(address|port)|messaging\.(system|operation\.(name|type)"
    r"|destination\.name|message\.id|client\.id|batch\.message_count|mulligan\.[a-z_]+)"
)


class Measured:
    """What has been measured so far."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    @property
    def all(self) -> dict[str, Any]:
        """Every metric by its name."""
        data = self._reader.get_metrics_data()
        parts = [] if data is None else [s for r in data.resource_metrics for s in r.scope_metrics]
        return {metric.name: metric for part in parts for metric in part.metrics}

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """The attributes of the metric's points, and the points."""
        return [(dict(point.attributes), point) for point in self.all[name].data.data_points]


@pytest.fixture
def measured() -> Measured:
    return Measured()


@pytest.fixture
def app(spans, measured) -> Mulligan:
    made = Mulligan("memory://")
    instrument(made, spans.provider, measured.provider)
    return made


@pytest.fixture
def call(app):
    @app.task(queue="calls", retry=Retry(1, Delays((1.0,))))
    async def call(number: int) -> int:
        if number == 13:
            raise ConnectionError("no line")
        return number

    return call


def test_names_and_kinds_of_spans_follow_the_operation_and_the_queue(app, call, spans):
    with app.testing() as t:
        call.enqueue(1)
        app.enqueue_many(call.call(number) for number in (2, 3))
        t.drain()
    batches = 0
    for span in spans.all:
        said = dict(span.attributes)
        assert span.name == f"{said['messaging.operation.name']} calls"
        batch = "messaging.batch.message_count" in said
        batches += batch
        kind = SpanKind.CLIENT if batch else KINDS[said["messaging.operation.type"]]
        assert span.kind is kind, span.name
        assert ("messaging.message.id" in said) is not batch
        assert said["messaging.system"] == "mulligan"
        assert all(NAMES.fullmatch(name) for name in said), said
        assert span.instrumentation_scope.schema_url.endswith("/1.44.0")
    assert batches == 1


def test_an_attempt_is_linked_to_the_span_that_its_job_carries_and_lies_under_it(app, call, spans):
    with app.testing() as t:
        call.enqueue(13)
        t.drain()
    [sent], attempts = spans.sent("call"), spans.attempts("call")
    assert len(attempts) == 2
    for attempt in attempts:
        assert is_child(attempt, sent)
        [link] = attempt.links
        assert link.context.span_id == context(sent).span_id


def test_with_links_only_each_attempt_has_a_trace_of_its_own(app, call, spans):
    instrument(app, spans.provider, links_only=True)
    with app.testing() as t:
        call.enqueue(13)
        t.drain()
    [sent], attempts = spans.sent("call"), spans.attempts("call")
    assert spans.traces == 3
    for attempt in attempts:
        assert attempt.parent is None
        assert attempt.links[0].context.trace_id == context(sent).trace_id


def test_a_batch_is_sent_in_one_span_that_is_linked_to_each_job(app, call, spans):
    with app.testing() as t:
        app.enqueue_many(call.call(number) for number in (1, 2, 3))
        t.drain()
    created = spans.sent("call")
    [send] = [span for span in spans.all if span.kind is SpanKind.CLIENT]
    assert [link.context.span_id for link in send.links] == [context(c).span_id for c in created]
    assert dict(send.attributes or {})["messaging.batch.message_count"] == 3
    assert [span.name for span in created] == ["create calls"] * 3


def test_a_batch_for_several_queues_names_none(app, call, spans):
    @app.task(queue="mail")
    async def write() -> None: ...

    with app.testing():
        app.enqueue_many([call.call(1), write.call()])
    [send] = [span for span in spans.all if span.kind is SpanKind.CLIENT]
    assert send.name == "enqueue"
    assert "messaging.destination.name" not in (send.attributes or {})


def test_a_failure_is_an_exception_event_with_its_traceback_and_an_error_type(app, call, spans):
    with app.testing() as t:
        call.enqueue(13)
        t.drain()
    for attempt in spans.attempts("call"):
        assert attempt.status.status_code is StatusCode.ERROR
        assert (attempt.attributes or {})["error.type"] == "ConnectionError"
        [event] = attempt.events
        assert event.name == "exception"
        said = dict(event.attributes or {})
        assert said["exception.type"] == "ConnectionError"
        assert "ConnectionError: no line" in str(said["exception.stacktrace"])
        assert "test_conventions.py" in str(said["exception.stacktrace"])


def test_what_succeeds_has_no_error_type(app, call, spans):
    with app.testing() as t:
        call.enqueue(1)
        t.drain()
    assert all("error.type" not in (span.attributes or {}) for span in spans.all)
    assert all(span.status.status_code is StatusCode.UNSET for span in spans.all)


def test_the_metrics_of_the_conventions_are_measured(app, call, measured):
    with app.testing() as t:
        app.enqueue_many(call.call(number) for number in (1, 2, 13))
        t.drain()
    units = {name: metric.unit for name, metric in measured.all.items()}
    assert units == {
        "messaging.client.operation.duration": "s",
        "messaging.client.sent.messages": "{message}",
        "messaging.client.consumed.messages": "{message}",
        "messaging.process.duration": "s",
    }
    [(said, sent)] = measured.points("messaging.client.sent.messages")
    assert (sent.value, said["messaging.operation.name"]) == (3, "enqueue")
    assert said["messaging.destination.name"] == "calls"
    [(_, operation)] = measured.points("messaging.client.operation.duration")
    assert (operation.count, tuple(operation.explicit_bounds)) == (1, BOUNDS)
    [(said, consumed)] = measured.points("messaging.client.consumed.messages")
    assert consumed.value == 4, "three jobs, one of them twice"
    ended = {
        said["messaging.mulligan.outcome"]: (said.get("error.type"), point.count)
        for said, point in measured.points("messaging.process.duration")
    }
    assert ended == {
        "done": (None, 2),
        "retry": ("ConnectionError", 1),
        "failed": ("ConnectionError", 1),
    }
    for name in units:
        for said, _ in measured.points(name):
            assert "messaging.message.id" not in said, "a series for each job"


async def test_an_enqueue_that_fails_has_its_error_type(app, call, spans, measured, monkeypatch):
    async def fails(*_: object, **__: object) -> None:
        raise StoreUnavailableError("gone")

    store = MemoryStore()
    monkeypatch.setattr(store, "enqueue", fails)
    app._memory = store
    with pytest.raises(StoreUnavailableError):
        await call.aenqueue(1)
    [sent] = spans.sent("call")
    name = "mulligan.core.errors.StoreUnavailableError"
    assert (sent.attributes or {})["error.type"] == name
    [(said, _)] = measured.points("messaging.client.sent.messages")
    assert said["error.type"] == name


def test_what_fails_for_good_is_an_error_too(app, spans):
    @app.task
    async def refuse() -> None:
        raise Fail("never")

    with app.testing() as t:
        refuse.enqueue()
        t.drain()
    [attempt] = spans.attempts("refuse")
    assert (attempt.attributes or {})["messaging.mulligan.outcome"] == "failed"
    assert "error.type" in (attempt.attributes or {})


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("redis://:secret@cache:6380/0", {"server.address": "cache", "server.port": 6380}),
        ("postgresql://db/shop", {"server.address": "db"}),
        ("mongodb://a:1,b:2/shop", {}),
        ("sqlite:///jobs.db", {}),
        ("memory://", {}),
        ("memory://name", {}),
        ("", {}),
    ],
)
def test_the_server_is_that_of_the_store(url, found):
    assert server_attributes(url) == found


def test_an_error_type_is_a_class_with_its_module():
    assert type_of(ValueError()) == "ValueError"
    assert type_of(StoreUnavailableError("")) == "mulligan.core.errors.StoreUnavailableError"
