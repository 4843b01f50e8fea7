"""Metrics as JSON; `core.metrics` computes them."""

from msgspec import UNSET, Struct, UnsetType

from mulligan.core.metric import Kind


class SampleView(Struct, frozen=True, omit_defaults=True):
    """A value; of a histogram the sum, and the count in each bucket by its upper bound."""

    labels: dict[str, str]
    value: float | UnsetType = UNSET
    sum: float | UnsetType = UNSET
    buckets: dict[str, float] | UnsetType = UNSET


class MetricView(Struct, frozen=True):
    """A metric: its kind, what it means, and its values."""

    kind: Kind
    help: str
    samples: list[SampleView]


class Metrics(Struct, frozen=True):
    """Every metric by name."""

    metrics: dict[str, MetricView]
