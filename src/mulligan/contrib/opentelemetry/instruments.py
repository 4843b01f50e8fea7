"""The metrics, by the semantic conventions for messaging."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.metrics import Meter

from mulligan.contrib.opentelemetry.attributes import operation
from mulligan.core.job import NewJob

# Bounds of the buckets, in seconds, that the conventions recommend.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


class Instruments:
    """Counts and times what this process does with jobs."""

    def __init__(self, meter: Meter) -> None:
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=BOUNDS,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            "{message}",
            "Number of messages producer attempted to send to the broker.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Number of messages that were delivered to the application.",
        )
        self._process = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of processing operation.",
            explicit_bucket_boundaries_advisory=BOUNDS,
        )

    def enqueued(
        self, jobs: Sequence[NewJob], seconds: float, attributes: Mapping[str, Any]
    ) -> None:
        """Jobs were sent to the store in so many seconds, together; `attributes` say how."""
        self._operation.record(seconds, dict(attributes))
        for (queue, task), number in Counter((job.queue, job.task) for job in jobs).items():
            each = operation("enqueue", "send", [queue]) | {"messaging.mulligan.task": task}
            self._sent.add(number, dict(attributes) | each)

    def started(self, attributes: Mapping[str, Any]) -> None:
        """An attempt starts."""
        self._consumed.add(1, dict(attributes))

    def processed(self, seconds: float, attributes: Mapping[str, Any]) -> None:
        """An attempt has ended."""
        self._process.record(seconds, dict(attributes))
