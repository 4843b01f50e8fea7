"""A receiver of OTLP over HTTP, as a collector is one, that keeps what it was sent."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Received:
    """Everything that has come in. `url` is for OTEL_EXPORTER_OTLP_ENDPOINT."""

    def __init__(self) -> None:
        self.url = ""
        self.traces: list[Any] = []
        self.metrics: list[Any] = []

    @property
    def spans(self) -> list[Any]:
        """Every span."""
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def services(self) -> set[str]:
        """The services that sent spans."""
        return {
            attributes_of(resource.resource)["service.name"]
            for request in self.traces
            for resource in request.resource_spans
        }

    def points(self, name: str) -> list[Any]:
        """The points of a metric."""
        return [
            point
            for request in self.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in (metric.histogram.data_points or metric.sum.data_points)
        ]


def attributes_of(said: Any) -> dict[str, Any]:
    """The attributes as a dictionary."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in said.attributes
    }


@contextmanager
def receiver() -> Iterator[Received]:
    """Listens on a free port of this machine."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                received.traces.append(ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                received.metrics.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
