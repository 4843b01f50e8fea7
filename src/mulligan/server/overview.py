"""The overview document: that of the app, with lanes, health and settings."""

from typing import Any

from mulligan import __version__
from mulligan.app.overview import StoreReading, overview_of
from mulligan.core.facts import Facts
from mulligan.core.settings import AN_APP
from mulligan.core.stats import LaneStats, Stats


def full_overview(reading: StoreReading, app: str = AN_APP) -> dict[str, Any]:
    """The whole overview of a store."""
    whole = overview_of(reading, app)
    return whole | {
        "queues": with_settings(whole["queues"], reading.facts),
        "lanes": lanes(reading.stats),
        "health": health_of(reading.facts),
        "version": __version__,
    }


def with_settings(queues: dict[str, Any], facts: Facts) -> dict[str, Any]:
    """Queues with their stored settings."""
    return {name: queue | settings_of(name, facts) for name, queue in queues.items()}


def lanes(stats: Stats) -> list[dict[str, Any]]:
    """Every lane that is not empty."""
    return [lane_view(each) for each in stats.lanes]


def settings_of(queue: str, facts: Facts) -> dict[str, Any]:
    """The stored settings of a queue besides its policy."""
    settings = facts.queue(queue)
    budget = settings.budget
    limits = (
        None
        if budget is None
        else {"limit": budget.limit, "per": budget.per, "ratio": budget.ratio}
    )
    return {"budget": limits, "grace": settings.grace_seconds}


def lane_view(count: LaneStats) -> dict[str, Any]:
    """A lane and how many jobs are in it."""
    lane = count.lane
    return {
        "queue": lane.queue,
        "scope": lane.scope,
        "priority": int(lane.priority),
        "lane": lane.label,
        "ready": count.ready,
        "delayed": count.delayed,
        "oldest_due": count.oldest_due,
    }


def health_of(facts: Facts) -> list[dict[str, Any]]:
    """Recent attempts by queue and region, and the breaker of each."""
    return [
        {
            "queue": queue,
            "region": region,
            "succeeded": health.succeeded,
            "failed": health.failed,
            "success_rate": health.success_rate,
            "breaker": {
                "open": health.breaker.open,
                "since": health.breaker.since,
                "probes": health.breaker.succeeded,
                "failed_probes": health.breaker.failed,
                "next_probe_at": facts.next_probe_at(queue, region),
            },
        }
        for (queue, region), health in sorted(facts.health.items())
    ]
