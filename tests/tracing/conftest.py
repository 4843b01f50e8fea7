"""Spans that a test can look at."""

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind

from mulligan import Mulligan
from mulligan.contrib.opentelemetry import instrument
from mulligan.contrib.opentelemetry.attributes import OWN


class Spans:
    """What has been traced so far."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    @property
    def all(self) -> Sequence[ReadableSpan]:
        """Every span that has ended, in that order."""
        return self._kept.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of that name."""
        return [span for span in self.all if span.name == name]

    def attempts(self, task: str) -> list[ReadableSpan]:
        """Those of attempts of the task."""
        return self._of(SpanKind.CONSUMER, task)

    def sent(self, task: str) -> list[ReadableSpan]:
        """Those that jobs of the task carry."""
        return self._of(SpanKind.PRODUCER, task)

    def _of(self, kind: SpanKind, task: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.kind is kind and said(span, "task") == [task]]

    @property
    def traces(self) -> int:
        """How many traces they belong to."""
        return len({context(span).trace_id for span in self.all})


def context(span: Any) -> SpanContext:
    """Which span of which trace it is."""
    found: SpanContext = span.get_span_context()
    return found


def is_child(span: ReadableSpan, parent: Any) -> bool:
    """Whether the one span lies directly under the other."""
    above = span.parent
    return above is not None and (above.trace_id, above.span_id) == context(parent)[:2]


def said(span: ReadableSpan, *names: str) -> list[object]:
    """Some attributes of ours."""
    return [(span.attributes or {}).get(f"{OWN}{name}") for name in names]


@pytest.fixture
def spans() -> Spans:
    """Nothing yet."""
    return Spans()


@pytest.fixture
def app(spans) -> Mulligan:
    """An app in memory that is traced."""
    made = Mulligan("memory://")
    instrument(made, spans.provider)
    return made
