"""OpenTelemetry for an app's jobs: `pip install 'mulligan[otel]'`, then `instrument(app)`.

Traces and metrics follow the semantic conventions for messaging. `MulliganInstrumentor` does the
same for every app of a process, and is what `opentelemetry-instrument` finds.
"""

from mulligan import __version__
from mulligan.app import Mulligan

try:
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from mulligan.contrib.opentelemetry.attributes import SCHEMA, server_attributes
    from mulligan.contrib.opentelemetry.instruments import Instruments
    from mulligan.contrib.opentelemetry.traces import Traces
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"traces need {error.name}, which is not installed; run: pip install 'mulligan[otel]'",
        name=error.name,
    ) from error

__all__ = ["Traces", "instrument", "new_traces"]


def instrument(
    app: Mulligan,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    links_only: bool = False,
) -> None:
    """Trace and measure the jobs that this app enqueues and runs, with the global providers.

    Call it in the module of the app, so that producers and workers both do. With `links_only` an
    attempt begins a trace of its own, which is linked to that of the enqueue.
    """
    app.tracing = new_traces(tracer_provider, meter_provider, url=app.url, links_only=links_only)


def new_traces(
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    url: str = "",
    links_only: bool = False,
) -> Traces:
    """What an app's `tracing` may be. `url` is that of its store, for the address of the server."""
    tracer = trace.get_tracer("mulligan", __version__, tracer_provider, SCHEMA)
    meter = metrics.get_meter("mulligan", __version__, meter_provider, SCHEMA)
    return Traces(tracer, Instruments(meter), server_attributes(url), links_only=links_only)
