"""The metrics, computed from the counts of a store and from what waits there now.

The command line, the API and Prometheus all show these.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf
from typing import Any, Literal, NamedTuple, Protocol

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
    RECLAIMED,
    RETRY_FAILED,
    RETRY_RETURN,
    RETRY_SUCCEEDED,
    RETRY_WAIT,
    SAVED,
    SAVED_SECONDS,
    STALE,
    STALE_RECORD,
    STARTED,
    STEP,
    SUCCEEDED,
    SUM,
    read_failure,
    read_runtime,
)
from mulligan.core.facts import Facts
from mulligan.core.lane import Lane
from mulligan.core.load import startable
from mulligan.core.plan import Rate
from mulligan.core.schedule_view import ScheduleView
from mulligan.core.status import Snapshot
from mulligan.core.unserved import region_of, unserved
from mulligan.core.worker import Worker

Key = tuple[str, str, str]

Kind = Literal["counter", "gauge", "histogram"]


class Sums(Protocol):
    """What was counted, ever and in the last minute."""

    @property
    def ever(self) -> Mapping[Key, float]:
        """Since the store was made."""
        ...

    @property
    def recent(self) -> Mapping[Key, float]:
        """In the last minute."""
        ...


class Sample(NamedTuple):
    """One value, or for a histogram the count in each bucket and the sum."""

    labels: dict[str, str]
    value: float
    buckets: tuple[float, ...] = ()


class Metric(NamedTuple):
    """A metric, what it means, and its values."""

    name: str
    kind: Kind
    help: str
    samples: list[Sample]


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
    for queue, region in sorted({(q, r) for q, r, _ in sums.recent} | set(facts.health)):
        recent = {
            name: value for (q, r, name), value in sums.recent.items() if (q, r) == (queue, region)
        }
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


def gauge(name: str, meaning: str, samples: Iterator[Sample]) -> Metric:
    """A metric that may go up and down."""
    return Metric(name, "gauge", meaning, list(samples))


def labels(queue: str, region: str, **more: str) -> dict[str, str]:
    """The labels that nearly every metric has."""
    return {"queue": queue, "region": region, **more}


def plain(name: str, key: str, meaning: str, sums: Sums) -> Metric:
    """A counter with one count name."""
    samples = [
        Sample(labels(q, r), v) for (q, r, each), v in sorted(sums.ever.items()) if each == key
    ]
    return Metric(name, "counter", meaning, samples)


def counted(name: str, meaning: str, sums: Sums, prefix: str, label: str) -> Metric:
    """A counter whose count names differ in one label."""
    samples = [
        Sample(labels(q, r, **{label: each.removeprefix(prefix)}), value)
        for (q, r, each), value in sorted(sums.ever.items())
        if each.startswith(prefix)
    ]
    return Metric(name, "counter", meaning, samples)


def outcomes(sums: Sums, names: Sequence[str], prefix: str = "") -> Iterator[Sample]:
    """Counters of outcomes."""
    for (queue, region, name), value in sorted(sums.ever.items()):
        if name in names:
            yield Sample(labels(queue, region, outcome=name.removeprefix(prefix)), value)


def histogram(name: str, meaning: str, sums: Sums, prefix: str) -> Metric:
    """Counts in buckets."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for (queue, region, each), value in sums.ever.items():
        if each.startswith(prefix):
            found[queue, region][each.removeprefix(prefix)] = value
    samples = [
        Sample(
            labels(queue, region),
            counts.get(SUM, 0.0),
            tuple(counts.get(bucket, 0.0) for bucket in BUCKETS),
        )
        for (queue, region), counts in sorted(found.items())
    ]
    return Metric(name, "histogram", meaning, samples)


def runtimes(sums: Sums) -> Iterator[Sample]:
    """Runtimes in buckets, by task and outcome."""
    found: dict[tuple[str, str, str, str], dict[str, float]] = defaultdict(dict)
    for (queue, region, each), value in sums.ever.items():
        if (name := read_runtime(each)) is not None:
            found[queue, region, name.task, name.outcome][name.bucket] = value
    for (queue, region, task, outcome), counts in sorted(found.items()):
        buckets = tuple(counts.get(bucket, 0.0) for bucket in BUCKETS)
        about = labels(queue, region, task=task, outcome=outcome)
        yield Sample(about, counts.get(SUM, 0.0), buckets)


def failures(sums: Sums) -> Iterator[Sample]:
    """Failed attempts, by task and type of failure."""
    for (queue, region, each), value in sorted(sums.ever.items()):
        if (name := read_failure(each)) is not None:
            yield Sample(labels(queue, region, task=name.task, type=name.type), value)


def waiting(snapshot: Snapshot) -> Iterator[Sample]:
    """Due, waiting jobs, by lane; the lanes that any region may take from are one."""
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for each in snapshot.lanes:
        found[place_of(each.lane)] += each.ready
    for (queue, region, lane), ready in found.items():
        yield Sample(labels(queue, region, lane=lane), ready)


def oldest_waits(snapshot: Snapshot) -> Iterator[Sample]:
    """How long the first due job of each lane has waited."""
    found: dict[tuple[str, str, str], float] = defaultdict(float)
    for each in snapshot.lanes:
        if each.ready:
            place = place_of(each.lane)
            found[place] = max(found[place], snapshot.now - each.oldest_due)
    for (queue, region, lane), seconds in found.items():
        yield Sample(labels(queue, region, lane=lane), seconds)


def place_of(lane: Lane) -> tuple[str, str, str]:
    """The queue, the region whose workers take from the lane (`*` is any), and its label."""
    return lane.queue, region_of(lane), lane.label


def startable_jobs(snapshot: Snapshot, facts: Facts) -> Iterator[Sample]:
    """Due jobs that one more worker could start now, by queue and region."""
    for (queue, region), jobs in sorted(startable(snapshot, facts).items()):
        yield Sample(labels(queue, region), jobs)


def delayed(snapshot: Snapshot) -> Iterator[Sample]:
    """Jobs that are not due yet."""
    for queue, counts in sorted(snapshot.delayed.items()):
        yield Sample({"queue": queue}, counts.total - counts.ready_now)


def running(snapshot: Snapshot, facts: Facts) -> Iterator[Sample]:
    """Jobs that run, by the region that runs them; 0 where a live worker serves the queue."""
    found = {(queue, region.name): 0 for region in facts.regions for queue in region.serves}
    for (queue, region), count in sorted((found | dict(snapshot.running)).items()):
        yield Sample(labels(queue, region), count)


def live_workers(snapshot: Snapshot, facts: Facts) -> Iterator[Sample]:
    """How many workers live in each region that ever had one."""
    return by_region(snapshot, facts, lambda _: 1)


def worker_slots(snapshot: Snapshot, facts: Facts) -> Iterator[Sample]:
    """How many jobs the live workers of each region can run at a time."""
    return by_region(snapshot, facts, lambda worker: worker.concurrency)


def by_region(
    snapshot: Snapshot, facts: Facts, number: Callable[[Worker], int]
) -> Iterator[Sample]:
    """A sum over the live workers of each region that ever had one."""
    found = dict.fromkeys((region.name for region in facts.regions), 0)
    for view in snapshot.workers:
        found.setdefault(view.worker.region, 0)
        found[view.worker.region] += number(view.worker) if view.live else 0
    for region, count in sorted(found.items()):
        yield Sample({"region": region}, count)


def unserved_jobs(snapshot: Snapshot, facts: Facts) -> Iterator[Sample]:
    """Due jobs that no live worker may take, by queue and region."""
    found: dict[tuple[str, str], int] = {}
    for each in unserved(snapshot, facts):
        queue_region = each.queue, each.region
        found[queue_region] = found.get(queue_region, 0) + each.jobs
    for (queue, region), jobs in sorted(found.items()):
        yield Sample(labels(queue, region), jobs)


def gathering(snapshot: Snapshot) -> Iterator[Sample]:
    """Jobs that are in no lane, because they await others."""
    for queue, count in sorted(snapshot.gathering.items()):
        yield Sample({"queue": queue}, count)


def ended(snapshot: Snapshot) -> Iterator[Sample]:
    """Dead letters that are stored."""
    for (queue, status), count in sorted(snapshot.ended.items()):
        if status == "failed":
            yield Sample({"queue": queue}, count)


def budgets(facts: Facts, number: Callable[[Rate], float | None]) -> Iterator[Sample]:
    """A number of each queue's budget, where it has one."""
    for queue, settings in sorted(facts.queues.items()):
        if settings.budget is not None:
            value = number(settings.budget.retry_limit(queue))
            if value is not None:
                yield Sample({"queue": queue}, value)


def breakers(facts: Facts) -> Iterator[Sample]:
    """Whether each breaker is open."""
    for (queue, region), health in sorted(facts.health.items()):
        yield Sample(labels(queue, region), float(health.breaker.open))
