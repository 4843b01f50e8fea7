"""The overview of a store: its status, the last minute, alerts, and fleets."""

import sys
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, NamedTuple

from msgspec.structs import asdict

from mulligan.app.schedules import list_schedules
from mulligan.app.shard_away import unless_away
from mulligan.core.alerts import alerts
from mulligan.core.counts import BUCKETS, NO_COUNTS, Counts
from mulligan.core.facts import Facts
from mulligan.core.fleets import PREFIX, fleets
from mulligan.core.held_up import NOTHING_HELD_UP, HeldUp, held_up, paused_limits, tight_limits
from mulligan.core.job import Job
from mulligan.core.limit_metrics import limit_metrics
from mulligan.core.limits import ALL_LIMITS, LimitView
from mulligan.core.long_attempts import LONG_ATTEMPTS, attempt_metrics, read_long_attempts
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
# While a limit is paused: how many limits, queues and pending jobs of each queue are looked at.
LIMITS_READ, QUEUES_READ, PENDING_READ = 1000, 20, 500
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
    limits: list[LimitView]
    held_up: HeldUp


async def read_limits(store: Store) -> list[LimitView]:
    """Read the first limits; none where the shard that keeps them is absent."""
    return await unless_away(store.limits(LIMITS_READ), [])


async def read_store(store: Store, limits: list[LimitView] | None = None) -> StoreReading:
    """Read everything that an overview shows; without what an absent shard keeps.

    The `limits` are read too, unless they are given.
    """
    running = await store.page(Selection(status="processing"), RUNNING_LIMIT, bodies=False)
    stats = await store.stats()
    limits = await read_limits(store) if limits is None else limits
    return StoreReading(
        stats,
        await store.facts(),
        await unless_away(store.counts(), NO_COUNTS),
        running.jobs,
        await unless_away(store.notes(PREFIX), {}),
        await unless_away(store.notes(ABOUT), {}),
        await unless_away(list_schedules(store), []),
        limits,
        await read_held_up(store, stats, paused_limits(limits, stats.now)),
    )


async def read_held_up(store: Store, stats: Stats, paused: Collection[str]) -> HeldUp:
    """What paused limits hold up, among the newest pending jobs of queues with due jobs."""
    if not paused:
        return NOTHING_HELD_UP
    queues = sorted({each.lane.queue for each in stats.lanes if each.ready})[:QUEUES_READ]
    pending: list[Job] = []
    for queue in queues:
        selection = Selection(status="pending", queue=queue)
        pending += (await store.page(selection, PENDING_READ, bodies=False)).jobs
    return held_up(pending, paused, stats.now)


def overview_of(reading: StoreReading, app: str = AN_APP) -> dict[str, Any]:
    """The whole status of a store; `app` is the app's name in commands."""
    whole = status(reading.stats, reading.running, reading.facts)
    about = read_about(reading.worker_notes)
    workers = [each | {"about": shown(about.get(each["id"]))} for each in whole["workers"]]
    held = reading.held_up.queues
    queues = {
        name: each | {"held_by": held.get(name, [])} for name, each in whole["queues"].items()
    }
    return whole | {
        "queues": queues,
        "limits": tight_limits(reading.limits, reading.stats.now),
        "workers": workers,
        "recent": summary(reading.counts, reading.facts),
        "shards": [asdict(each) for each in reading.stats.shards],
        "alerts": [
            *absent(reading.stats.shards),
            *alerts(reading.stats, reading.facts, app, reading.held_up),
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


async def here(work: Callable[..., list[Metric]], *args: Any) -> list[Metric]:
    """Compute at once."""
    return work(*args)


async def measure(
    store: Store, compute: Callable[..., Awaitable[list[Metric]]] = here
) -> list[Metric]:
    """Every metric of a store, and what measures it. A server may `compute` them in a thread."""
    stats = await store.stats()
    counts = await unless_away(store.counts(), NO_COUNTS)
    facts = await store.facts()
    found = await compute(metrics, stats, counts, facts)
    return [
        build_info(BUILD),
        *found,
        *shard_metrics(stats.shards),
        *schedule_metrics(await unless_away(list_schedules(store), [])),
        *limit_metrics(await store.limits(ALL_LIMITS)),
        *attempt_metrics(
            read_long_attempts(await unless_away(store.notes(LONG_ATTEMPTS), {})), stats.now
        ),
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
