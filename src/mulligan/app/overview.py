"""A store at a glance: its status, the last minute, alerts, and who runs the workers."""

from collections.abc import Iterable
from typing import Any

from mulligan.core.alerts import alerts
from mulligan.core.fleets import PREFIX, fleets
from mulligan.core.metrics import Metric, Sample, metrics, summary
from mulligan.core.status import status
from mulligan.core.tallying import BOUNDS
from mulligan.stores.contract import Selection, Store

RUNNING_LIMIT = 1000


async def overview(store: Store) -> dict[str, Any]:
    """The whole status of a store."""
    running = await store.page(Selection(status="processing"), RUNNING_LIMIT)
    stats, facts, tallies = await store.stats(), await store.facts(), await store.tallies()
    return status(stats, running.jobs, facts) | {
        "recent": summary(tallies, facts),
        "alerts": alerts(stats, facts),
        "gathering": dict(sorted(stats.gathering.items())),
        "fleets": fleets(await store.notes(PREFIX)),
    }


async def measure(store: Store) -> list[Metric]:
    """Every metric of a store."""
    return metrics(await store.stats(), await store.tallies(), await store.facts())


def metrics_document(found: Iterable[Metric]) -> dict[str, Any]:
    """Metrics by name, as the command line and the API show them in JSON."""
    return {
        metric.name: {
            "kind": metric.kind,
            "help": metric.help,
            "samples": [sample_document(sample) for sample in metric.samples],
        }
        for metric in found
    }


def sample_document(sample: Sample) -> dict[str, Any]:
    """A value; of a histogram the sum, and the count in each bucket by its upper bound."""
    if not sample.buckets:
        return {"labels": sample.labels, "value": sample.value}
    counts = {f"{bound:g}": n for bound, n in zip(BOUNDS, sample.buckets, strict=True)}
    return {"labels": sample.labels, "sum": sample.value, "buckets": counts}
