"""The spans of jobs: one where jobs are enqueued, one for each attempt.

A trace begins where a job is enqueued, or continues the span that is current there. The context of
that span, the creation context, travels in the jobs' bodies as W3C trace context. Attempts of the
job, and of all jobs that follow from it, are linked to it and lie under it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter

import msgspec
from msgspec import Raw, Struct
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mulligan.contrib.opentelemetry.attributes import (
    CUT_OFF,
    OWN,
    Attributes,
    about_attempt,
    about_job,
    ended_as,
    measured,
    operation,
    type_of,
)
from mulligan.contrib.opentelemetry.instruments import Instruments
from mulligan.core.errors import UNREADABLE
from mulligan.core.job import NO_TRACE, Claim, Enqueued, NewJob, encode, traced
from mulligan.core.outcome import Failed, Outcome, Result
from mulligan.engine.tracing import Ended, Stored


class Traces:
    """Makes the spans, and measures what they surround."""

    def __init__(
        self,
        tracer: Tracer,
        instruments: Instruments,
        server: Attributes,
        *,
        links_only: bool = False,
    ) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._server = server
        self._links_only = links_only
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def enqueuing(
        self, jobs: Sequence[NewJob], *, together: bool = False
    ) -> Iterator[tuple[Sequence[NewJob], Stored]]:
        """A span "send"; jobs that do not belong together have a span "create" each beside it."""
        began = perf_counter()
        creates = [] if together or len(jobs) == 1 else [self._create(job) for job in jobs]
        send = self._send(jobs, creates)
        carried = [self._carried(span) for span in creates] or [self._carried(send)] * len(jobs)
        about = measured(operation("enqueue", "send", [job.queue for job in jobs]) | self._server)

        def stored(answers: Sequence[Enqueued]) -> None:
            for span, answer in zip(creates or [send], answers, strict=False):
                span.set_attribute(f"{OWN}created", answer.created)

        try:
            yield [traced(*pair) for pair in zip(jobs, carried, strict=True)], stored
        except Exception as error:
            about["error.type"] = type_of(error)
            for span in (*creates, send):
                span.record_exception(error)
                span.set_attribute("error.type", type_of(error))
                span.set_status(Status(StatusCode.ERROR, str(error)))
            raise
        finally:
            for span in (*creates, send):
                span.end()
            self._instruments.enqueued(jobs, perf_counter() - began, about)

    @contextmanager
    def attempt(self, claim: Claim) -> Iterator[Ended]:
        """The current span while the task runs."""
        began = perf_counter()
        creation = self._propagator.extract(carrier_of(claim.body), Context())
        created = trace.get_current_span(creation).get_span_context()
        attributes = about_attempt(claim) | self._server
        self._instruments.started(measured(attributes))
        with self._tracer.start_as_current_span(
            f"process {claim.queue}",
            Context() if self._links_only else creation,
            SpanKind.CONSUMER,
            attributes,
            [Link(created)] if created.is_valid else [],
        ) as span:
            said = {f"{OWN}outcome": CUT_OFF}  # overwritten when the attempt ends

            def ended(result: Result, outcome: Outcome) -> None:
                said.update(ended_as(outcome))
                if isinstance(result, Failed):
                    said["error.type"] = result.type
                    record_failure(span, result)

            try:
                yield ended
            finally:
                span.set_attributes(said)
                self._instruments.processed(perf_counter() - began, measured(attributes | said))

    def carrier(self) -> dict[str, str]:
        """The current span as W3C trace context."""
        found: dict[str, str] = {}
        self._propagator.inject(found)
        return found

    @contextmanager
    def resumed(self, carrier: Mapping[str, str]) -> Iterator[None]:
        """Spans of a child process lie under that of its attempt, which the worker ends."""
        token = attach(self._propagator.extract(carrier, Context()))
        try:
            yield
        finally:
            detach(token)

    def _create(self, job: NewJob) -> Span:
        """The span of a job that is sent with others; it has a trace of its own if none is on."""
        attributes = operation("create", "create", [job.queue]) | about_job(job) | self._server
        return self._tracer.start_span(f"create {job.queue}", None, SpanKind.PRODUCER, attributes)

    def _send(self, jobs: Sequence[NewJob], creates: Sequence[Span]) -> Span:
        attributes = operation("enqueue", "send", [job.queue for job in jobs]) | self._server
        if len(jobs) == 1:
            attributes |= about_job(jobs[0])
        else:
            attributes["messaging.batch.message_count"] = len(jobs)
        queue = attributes.get("messaging.destination.name")
        return self._tracer.start_span(
            "enqueue" if queue is None else f"enqueue {queue}",
            None,
            SpanKind.CLIENT if creates else SpanKind.PRODUCER,
            attributes,
            [Link(each.get_span_context()) for each in creates],
        )

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


def record_failure(span: Span, failed: Failed) -> None:
    """Record the failure as spans record exceptions."""
    said = {"exception.type": failed.type, "exception.message": failed.message}
    if failed.traceback is not None:
        said["exception.stacktrace"] = failed.traceback
    span.add_event("exception", said)
    span.set_status(Status(StatusCode.ERROR, f"{failed.type}: {failed.message}"))
