"""The metrics for Prometheus, read from the store at most once a second."""

import asyncio
import time
from collections.abc import Callable, Iterable
from itertools import accumulate
from math import inf

from prometheus_client import core as prometheus
from prometheus_client.registry import Collector

from mulligan.app.overview import measure
from mulligan.core.counts import BOUNDS
from mulligan.core.metric import Metric
from mulligan.stores.contract import Store

# However many scrapes there are, the store is read at most this often,
KEPT = 1.0
# and after a reading that took long, not before this many times as long.
TIMES = 2.0
# Upper bounds of buckets, as Prometheus writes them.
WRITTEN_BOUNDS = ["+Inf" if bound == inf else str(bound) for bound in BOUNDS]


class Scrapes:
    """The last metrics, and when they were read."""

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._measuring = asyncio.Lock()
        self._at = -inf
        self._took = 0.0
        self._metrics: list[Metric] = []

    async def metrics(self) -> list[Metric]:
        """Every metric, at most a second old; concurrent requests share one read."""
        async with self._measuring:
            began = self._monotonic()
            if began - self._at >= max(KEPT, TIMES * self._took):
                self._metrics = await measure(self._store, asyncio.to_thread)
                self._at = self._monotonic()
                self._took = self._at - began
            return self._metrics


class Measured(Collector):
    """A collector for the library of Prometheus."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[prometheus.Metric]:
        """All metrics, those without a value too."""
        return [family(metric) for metric in self._metrics]


def family(metric: Metric) -> prometheus.Metric:
    """A metric with all its values."""
    names = list(metric.samples[0].labels) if metric.samples else []
    if metric.kind == "histogram":
        histogram = prometheus.HistogramMetricFamily(metric.name, metric.help, labels=names)
        for sample in metric.samples:
            below = list(zip(WRITTEN_BOUNDS, accumulate(sample.buckets), strict=True))
            histogram.add_metric(list(sample.labels.values()), below, sample.value)
        return histogram
    kind = (
        prometheus.CounterMetricFamily if metric.kind == "counter" else prometheus.GaugeMetricFamily
    )
    made = kind(metric.name, metric.help, labels=names)
    for sample in metric.samples:
        made.add_metric(list(sample.labels.values()), sample.value)
    return made
