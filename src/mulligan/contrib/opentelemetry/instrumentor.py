"""The entry point of `opentelemetry-instrument`: all apps of a process, without a line of code."""

from collections.abc import Collection
from typing import Any

# its module tells type checkers to look away, and so they find nothing in it
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from mulligan.app import Mulligan
from mulligan.contrib.opentelemetry import new_traces


class MulliganInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Traces and measures all apps, except those that have `instrument(app)` of their own."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """What must be installed for it."""
        return ["mulligan"]

    def _instrument(self, **kwargs: Any) -> None:
        Mulligan.tracing = new_traces(
            kwargs.get("tracer_provider"),
            kwargs.get("meter_provider"),
            links_only=kwargs.get("links_only", False),
        )

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - as the class above says it
        Mulligan.tracing = None
