"""The overview of a store: its status, the last minute, alerts, and fleets."""

import asyncio
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec.structs import asdict

from mulligan.app.schedules import list_schedules
from mulligan.app.shard_away import unless_away
from mulligan.core.alerts import alerts
from mulligan.core.counts import BUCKETS, NO_COUNTS, Counts
from mulligan.core.facts import Facts
from mulligan.core.fleets import PREFIX, fleets
from mulligan.core.job import Job
from mulligan.core.limit_metrics import limit_metrics
from mulligan.core.limits import ALL_LIMITS
from mulligan.core.metric import Metric, Sample
from mulligan.core.metrics import build_info, metrics, schedule_metrics, summary
from mulligan.core.page import Selection
from mulligan.core.schedule_view import ScheduleView, problems
from mulligan.core.settings import AN_APP
from mulligan.core.shard_metrics import shard_metrics
from mulligan.core.shards import absent
from mulligan.core.stats import Stats
from mulligan.core.status import status
from mulligan.core.worker import ABOUT, WorkerAbout, read_about
from mulligan.stores.contract import Store

RUNNING_LIMIT = 1000
BUILD = {
    "version": sys.modules["mulligan"].__version__,
    "python_version": ".".join(map(str, sys.version_info[:3])),
}


class StoreReading(NamedTuple):
    """What an overview is made from, read together so that its numbers agree."""

    stats: Stats
    facts: Facts
    counts: Counts
    running: list[Job]
    notes: dict[str, bytes]
    worker_notes: dict[str, bytes]
    schedules: list[ScheduleView]


async def read_store(store: Store) -> StoreReading:
    """Read everything that an overview shows; without what an absent shard keeps."""
    running = await store.page(Selection(status="processing"), RUNNING_LIMIT, bodies=False)
    return StoreReading(
        await store.stats(),
        await store.facts(),
        await unless_away(store.counts(), NO_COUNTS),
        running.jobs,
        await unless_away(store.notes(PREFIX), {}),
        await unless_away(store.notes(ABOUT), {}),
        await unless_away(list_schedules(store), []),
    )


def overview_of(reading: StoreReading, app: str = AN_APP) -> dict[str, Any]:
    """The whole status of a store; `app` is the app's name in commands."""
    whole = status(reading.stats, reading.running, reading.facts)
    about = read_about(reading.worker_notes)
    workers = [each | {"about": shown(about.get(each["id"]))} for each in whole["workers"]]
    return whole | {
        "workers": workers,
        "recent": summary(reading.counts, reading.facts),
        "shards": [asdict(each) for each in reading.stats.shards],
        "alerts": [
            *absent(reading.stats.shards),
            *alerts(reading.stats, reading.facts, app),
            *problems(reading.schedules),
        ],
        "gathering": dict(sorted(reading.stats.gathering.items())),
        "fleets": fleets(reading.notes),
    }


def shown(about: WorkerAbout | None) -> dict[str, Any] | None:
    """What a worker tells of itself, as plain values."""
    return None if about is None else asdict(about)


async def overview(store: Store, app: str = AN_APP) -> dict[str, Any]:
    """The whole status of a store, as it is now."""
    return overview_of(await read_store(store), app)


async def measure(store: Store) -> list[Metric]:
    """Every metric of a store, and what measures it."""
    stats = await store.stats()
    counts = await unless_away(store.counts(), NO_COUNTS)
    facts = await store.facts()
    found = await asyncio.to_thread(metrics, stats, counts, facts)
    return [
        build_info(BUILD),
        *found,
        *shard_metrics(stats.shards),
        *schedule_metrics(await unless_away(list_schedules(store), [])),
        *limit_metrics(await store.limits(ALL_LIMITS)),
    ]


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
    counts = dict(zip(BUCKETS, sample.buckets, strict=True))
    return {"labels": sample.labels, "sum": sample.value, "buckets": counts}
