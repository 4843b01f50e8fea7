"""The metrics, computed from the counts of a store and from what waits there now.

The command line, the API and Prometheus all show these.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import inf
from typing import Any

from mulligan.core.counts import (
    BOUNDS,
    BUCKETS,
    DEAD,
    ELSEWHERE,
    EVENT_DROPPED,
    FAILED,
    FRESH_WAIT,
    HOOK_FAILED,
    JOB_FAULT,
    LIMIT_STARTED,
    RECLAIMED,
    RETRY_FAILED,
    RETRY_RETURN,
    RETRY_SUCCEEDED,
    RETRY_WAIT,
    SAVED,
    SAVED_SECONDS,
    SINK_AGAIN,
    STALE,
    STALE_RECORD,
    STARTED,
    STEP,
    SUCCEEDED,
)
from mulligan.core.facts import Facts
from mulligan.core.gauges import (
    breakers,
    budgets,
    delayed,
    ended,
    gathering,
    live_workers,
    oldest_waits,
    running,
    startable_jobs,
    unserved_jobs,
    waiting,
    worker_slots,
)
from mulligan.core.metric import (
    Metric,
    Sample,
    Sums,
    counted,
    failures,
    gauge,
    histogram,
    outcomes,
    plain,
    runtimes,
)
from mulligan.core.schedule_view import ScheduleView
from mulligan.core.status import Snapshot


def metrics(snapshot: Snapshot, sums: Sums, facts: Facts) -> list[Metric]:
    """Every metric, with a value for each queue and region that has one."""
    return [
        gauge("mulligan_waiting_jobs", "due jobs waiting, by lane", waiting(snapshot)),
        gauge("mulligan_oldest_wait_seconds", "of the first due job", oldest_waits(snapshot)),
        gauge(
            "mulligan_startable_jobs",
            "due jobs that one more worker could start now",
            startable_jobs(snapshot, facts),
        ),
        gauge("mulligan_delayed_jobs", "jobs put off and not yet due", delayed(snapshot)),
        gauge("mulligan_gathering_jobs", "jobs that await others", gathering(snapshot)),
        gauge("mulligan_running_jobs", "jobs that run", running(snapshot, facts)),
        gauge("mulligan_live_workers", "workers that beat", live_workers(snapshot, facts)),
        gauge(
            "mulligan_worker_slots",
            "how many jobs the live workers can run at a time",
            worker_slots(snapshot, facts),
        ),
        gauge(
            "mulligan_unserved_jobs",
            "due, and no live worker may take them",
            unserved_jobs(snapshot, facts),
        ),
        gauge("mulligan_dead_letters_stored", "failed jobs that are stored", ended(snapshot)),
        counted("mulligan_starts_total", "attempts started, by lane", sums, STARTED, "lane"),
        counted(
            "mulligan_limit_starts_total",
            "attempts started, by limit",
            sums,
            LIMIT_STARTED,
            "limit",
        ),
        Metric(
            "mulligan_attempts_total",
            "counter",
            "attempts ended, by outcome",
            [*outcomes(sums, (SUCCEEDED, FAILED, JOB_FAULT))],
        ),
        Metric(
            "mulligan_retries_total",
            "counter",
            "retries ended, by outcome",
            [*outcomes(sums, (RETRY_SUCCEEDED, RETRY_FAILED), prefix="retry-")],
        ),
        plain("mulligan_retries_elsewhere_total", ELSEWHERE, "taken by another region", sums),
        plain(
            "mulligan_leases_reclaimed_total",
            RECLAIMED,
            "leases of workers that stopped beating",
            sums,
        ),
        plain("mulligan_stale_commits_total", STALE, "outcomes refused as stale", sums),
        plain("mulligan_steps_recorded_total", STEP, "steps whose result was recorded", sums),
        plain("mulligan_stale_records_total", STALE_RECORD, "records refused as stale", sums),
        plain(
            "mulligan_sink_calls_repeated_total",
            SINK_AGAIN,
            "transactional sinks called again in an attempt, as their transaction was cut",
            sums,
        ),
        plain("mulligan_dead_letters_total", DEAD, "jobs that failed for good", sums),
        counted(
            "mulligan_hook_failures_total",
            "hooks that raised, by event",
            sums,
            HOOK_FAILED,
            "event",
        ),
        plain("mulligan_events_dropped_total", EVENT_DROPPED, "hooks were too slow", sums),
        plain("mulligan_time_saved_seconds_total", SAVED_SECONDS, "by priority, measured", sums),
        plain("mulligan_time_saved_retries_total", SAVED, "retries it was measured for", sums),
        Metric(
            "mulligan_attempt_duration_seconds",
            "histogram",
            "runtimes of attempts, by task and outcome",
            [*runtimes(sums)],
        ),
        Metric(
            "mulligan_failures_total",
            "counter",
            "failed attempts, by task and type of failure",
            [*failures(sums)],
        ),
        histogram("mulligan_fresh_wait_seconds", "from due to first start", sums, FRESH_WAIT),
        histogram("mulligan_retry_wait_seconds", "from due to start", sums, RETRY_WAIT),
        histogram("mulligan_retry_return_seconds", "from failure to start", sums, RETRY_RETURN),
        gauge(
            "mulligan_retry_budget_retries",
            "retries that may start in any window of the budget",
            budgets(facts, lambda rate: rate.limit),
        ),
        gauge(
            "mulligan_retry_budget_window_seconds",
            "the window of the budget",
            budgets(facts, lambda rate: rate.per),
        ),
        gauge(
            "mulligan_retry_budget_ratio",
            "retries that may start for each fresh start, if that is more",
            budgets(facts, lambda rate: rate.ratio or None),
        ),
        gauge("mulligan_breaker_open", "1 while the region is probed only", breakers(facts)),
    ]


def build_info(about: Mapping[str, str]) -> Metric:
    """What runs here, as labels of a metric that is always 1."""
    return gauge("mulligan_build_info", "what measures here", iter([Sample(dict(about), 1)]))


def schedule_metrics(schedules: Iterable[ScheduleView]) -> list[Metric]:
    """What schedules did, and whether they tick."""
    views = list(schedules)
    return [
        Metric(
            "mulligan_schedule_ticks_total",
            "counter",
            "ticks that have come, by schedule",
            [Sample({"schedule": view.name}, view.ticks) for view in views],
        ),
        gauge(
            "mulligan_schedule_late_seconds",
            "by how much the last tick was placed too late",
            (Sample({"schedule": view.name}, view.late) for view in views),
        ),
        gauge(
            "mulligan_schedule_active",
            "1 while it ticks, 0 while it is paused or no live worker declares it",
            (Sample({"schedule": view.name}, float(view.state == "active")) for view in views),
        ),
    ]


def summary(sums: Sums, facts: Facts) -> dict[str, dict[str, Any]]:
    """The last minute in a few numbers for each queue and region."""
    found: dict[str, dict[str, Any]] = {}
    by_place: dict[tuple[str, str], dict[str, float]] = {place: {} for place in facts.health}
    for (queue, region, name), value in sums.recent.items():
        by_place.setdefault((queue, region), {})[name] = value
    for (queue, region), recent in sorted(by_place.items(), key=lambda each: each[0]):
        health = facts.health_of(queue, region)
        started = sum(v for name, v in recent.items() if name.startswith(STARTED))
        begun = sum(v for name, v in recent.items() if is_retry_start(name))
        succeeded = recent.get(SUCCEEDED, 0)
        failed = recent.get(FAILED, 0) + recent.get(JOB_FAULT, 0)
        found.setdefault(queue, {})[region] = {
            "started": int(started),
            "succeeded": int(succeeded),
            "failed": int(failed),
            "success_rate": share(succeeded, failed),
            "retries_started": int(begun),
            "retry_success_rate": share(
                recent.get(RETRY_SUCCEEDED, 0), recent.get(RETRY_FAILED, 0)
            ),
            "retries_elsewhere": share_of(recent.get(ELSEWHERE, 0), begun),
            "retry_wait_p99": quantile(recent, RETRY_WAIT, 0.99),
            "retry_return_p50": quantile(recent, RETRY_RETURN, 0.5),
            "time_saved_mean": share_of(recent.get(SAVED_SECONDS, 0), recent.get(SAVED, 0)),
            "dead": int(recent.get(DEAD, 0)),
            "reclaimed": int(recent.get(RECLAIMED, 0)),
            "stale": int(recent.get(STALE, 0)),
            "breaker": "open" if health.breaker.open else "closed",
            "next_probe_at": facts.next_probe_at(queue, region),
        }
    return found


def quantile(recent: Mapping[str, float], prefix: str, share: float) -> float | None:
    """The upper bound of this share of the waits; None if nothing waited."""
    below = [*accumulate(recent.get(prefix + bucket, 0.0) for bucket in BUCKETS)]
    if not below[-1]:
        return None
    bound = BOUNDS[bisect_left(below, share * below[-1])]
    return bound if bound < inf else BOUNDS[-2]


def share(good: float, bad: float) -> float | None:
    """The share of `good`; None if there are none of either."""
    return share_of(good, good + bad)


def share_of(part: float, whole: float) -> float | None:
    """The part as a share of the whole; None if the whole is 0."""
    return round(part / whole, 4) if whole else None


def is_retry_start(name: str) -> bool:
    """Whether the name counts starts of retries."""
    return name.startswith(STARTED) and name.endswith("retry")
