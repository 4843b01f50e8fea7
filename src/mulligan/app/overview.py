"""A store at a glance: its status, the last minute, alerts, and who runs the workers."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from mulligan.core.alerts import alerts
from mulligan.core.counts import BOUNDS, Counts
from mulligan.core.facts import Facts
from mulligan.core.fleets import PREFIX, fleets
from mulligan.core.job import Job
from mulligan.core.metrics import Metric, Sample, metrics, summary
from mulligan.core.page import Selection
from mulligan.core.stats import Stats
from mulligan.core.status import status
from mulligan.core.unserved import AN_APP
from mulligan.stores.contract import Store

RUNNING_LIMIT = 1000


class Seen(NamedTuple):
    """What an overview is made from, read once, so that its numbers agree."""

    stats: Stats
    facts: Facts
    counts: Counts
    running: list[Job]
    notes: dict[str, bytes]


async def see(store: Store) -> Seen:
    """Read all of it."""
    running = await store.page(Selection(status="processing"), RUNNING_LIMIT, bodies=False)
    return Seen(
        await store.stats(),
        await store.facts(),
        await store.counts(),
        running.jobs,
        await store.notes(PREFIX),
    )


def shown(seen: Seen, app: str = AN_APP) -> dict[str, Any]:
    """The whole status of a store; `app` is what commands call the app."""
    return status(seen.stats, seen.running, seen.facts) | {
        "recent": summary(seen.counts, seen.facts),
        "alerts": alerts(seen.stats, seen.facts, app),
        "gathering": dict(sorted(seen.stats.gathering.items())),
        "fleets": fleets(seen.notes),
    }


async def overview(store: Store, app: str = AN_APP) -> dict[str, Any]:
    """The whole status of a store, as it is now."""
    return shown(await see(store), app)


async def measure(store: Store) -> list[Metric]:
    """Every metric of a store."""
    return metrics(await store.stats(), await store.counts(), await store.facts())


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
