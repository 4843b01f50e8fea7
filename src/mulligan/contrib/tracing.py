"""OpenTelemetry traces of an app's jobs: `pip install 'mulligan[otel]'`, then `instrument(app)`.

A trace begins where a job is enqueued, or continues the span that is current there. The span of
the enqueue is the parent of all its attempts, and of all jobs that follow from it. Its context
travels in the jobs' bodies as W3C trace context.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Raw, Struct

from mulligan import __version__
from mulligan.app import Mulligan
from mulligan.core.errors import UNREADABLE
from mulligan.core.job import NO_TRACE, Claim, Enqueued, NewJob, encode, traced
from mulligan.core.outcome import Again, Dead, Failed, Later, Outcome, Result
from mulligan.engine.tracing import Ended, Stored

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"traces need {error.name}, which is not installed; run: pip install 'mulligan[otel]'",
        name=error.name,
    ) from error

CUT_OFF = "cut off"


def instrument(app: Mulligan, provider: TracerProvider | None = None) -> None:
    """Trace the jobs that this app enqueues and runs, by default with the global provider.

    Call it in the module of the app, so that producers and workers both trace.
    """
    app.tracing = Traces(trace.get_tracer("mulligan", __version__, provider))


class Traces:
    """Makes the spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def enqueuing(
        self, jobs: Sequence[NewJob], *, together: bool = False
    ) -> Iterator[tuple[Sequence[NewJob], Stored]]:
        """A span for each job, or one for all; an error from the store is recorded."""
        spans = [
            self._tracer.start_span(
                f"enqueue {job.task}", None, SpanKind.PRODUCER, sent_attributes(job)
            )
            for job in (jobs[:1] if together else jobs)
        ]
        carried = [self._carried(span) for span in spans] * (len(jobs) if together else 1)

        def stored(answers: Sequence[Enqueued]) -> None:
            for span, answer in zip(spans, answers, strict=False):
                span.set_attribute("mulligan.created", answer.created)

        try:
            yield [traced(*pair) for pair in zip(jobs, carried, strict=True)], stored
        except Exception as error:
            for span in spans:
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, str(error)))
            raise
        finally:
            for span in spans:
                span.end()

    @contextmanager
    def attempt(self, claim: Claim) -> Iterator[Ended]:
        """The current span while the task runs."""
        context = self._propagator.extract(carrier_of(claim.body), Context())
        with self._tracer.start_as_current_span(
            claim.task, context, SpanKind.CONSUMER, attempt_attributes(claim)
        ) as span:

            def ended(result: Result, outcome: Outcome) -> None:
                span.set_attributes(ended_as(outcome))
                if isinstance(result, Failed):
                    record_failure(span, result)

            span.set_attribute("mulligan.outcome", CUT_OFF)  # overwritten when the attempt ends
            yield ended

    def _carried(self, span: Span) -> Raw:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, trace.set_span_in_context(span))
        return Raw(encode(carrier)) if carrier else NO_TRACE


class Carrying(Struct):
    """The part of a body that says which trace it belongs to."""

    trace: dict[str, str] = {}


decode_carrying = msgspec.json.Decoder(Carrying).decode


def carrier_of(body: bytes) -> Mapping[str, str]:
    """The trace context that a body carries; none if it cannot be read."""
    try:
        return decode_carrying(body).trace if b'"trace":' in body else {}
    except UNREADABLE:
        return {}


def sent_attributes(job: NewJob) -> dict[str, Any]:
    """The attributes of the span of an enqueue."""
    return {
        "messaging.system": "mulligan",
        "messaging.operation.type": "send",
        "messaging.destination.name": job.queue,
        "messaging.message.id": job.id,
        "mulligan.task": job.task,
        "mulligan.region": job.region,
    }


def attempt_attributes(claim: Claim) -> dict[str, Any]:
    """The attributes of the span of an attempt at its start."""
    return {
        "messaging.system": "mulligan",
        "messaging.operation.type": "process",
        "messaging.destination.name": claim.queue,
        "messaging.message.id": claim.id,
        "mulligan.task": claim.task,
        "mulligan.region": claim.worker_region,
        "mulligan.original_region": claim.region,
        "mulligan.lane": claim.lane.label,
        "mulligan.attempt": claim.attempt,
        "mulligan.replay": claim.replay,
        "mulligan.worker": claim.worker,
    }


def ended_as(outcome: Outcome) -> dict[str, Any]:
    """The attributes of the span of an attempt at its end: what becomes of the job, and when."""
    match outcome:
        case Again():
            return {"mulligan.outcome": "retry", "mulligan.delay": outcome.delay}
        case Later():
            return {"mulligan.outcome": "later", "mulligan.delay": outcome.delay}
        case Dead():
            return {"mulligan.outcome": "failed"}
        case _:
            return {"mulligan.outcome": type(outcome).__name__.lower()}


def record_failure(span: Span, failed: Failed) -> None:
    """Record the failure as spans record exceptions."""
    said = {"exception.type": failed.type, "exception.message": failed.message}
    if failed.traceback is not None:
        said["exception.stacktrace"] = failed.traceback
    span.add_event("exception", said)
    span.set_status(Status(StatusCode.ERROR, f"{failed.type}: {failed.message}"))
