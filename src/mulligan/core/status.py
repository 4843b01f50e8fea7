"""The status of a store as one plain object, for the command line and the API."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from mulligan.core.errors import InvalidError
from mulligan.core.facts import Facts
from mulligan.core.fetch import Only, Separate, policy_text
from mulligan.core.job import Job, Status
from mulligan.core.lane import ANYWHERE, Lane, plain_region
from mulligan.core.worker import WorkerView


class LaneCount(Protocol):
    """A lane and how many of its jobs could start now."""

    @property
    def lane(self) -> Lane:
        """The lane."""
        ...

    @property
    def ready(self) -> int:
        """Jobs in it that are due."""
        ...

    @property
    def oldest_due(self) -> float:
        """When the first of its jobs fell or falls due."""
        ...


class DelayedCount(Protocol):
    """The delayed set of a queue."""

    @property
    def total(self) -> int:
        """All jobs that were delayed and have not started since."""
        ...

    @property
    def ready_now(self) -> int:
        """Those that are due."""
        ...

    @property
    def ready_in_hour(self) -> int:
        """Those that are due or will be within an hour."""
        ...


class Snapshot(Protocol):
    """The counts of a store at one instant."""

    @property
    def now(self) -> float:
        """The store's time."""
        ...

    @property
    def lanes(self) -> Sequence[LaneCount]:
        """Every lane that is not empty."""
        ...

    @property
    def running(self) -> Mapping[tuple[str, str], int]:
        """Running jobs by queue and region of the worker."""
        ...

    @property
    def ended(self) -> Mapping[tuple[str, Status], int]:
        """Ended jobs that are still stored, by queue and status."""
        ...

    @property
    def delayed(self) -> Mapping[str, DelayedCount]:
        """The delayed set of each queue."""
        ...

    @property
    def gathering(self) -> Mapping[str, int]:
        """Jobs that await others, by queue."""
        ...

    @property
    def workers(self) -> Sequence[WorkerView]:
        """Every worker that has joined and not left."""
        ...


def status(snapshot: Snapshot, running: Iterable[Job], facts: Facts) -> dict[str, Any]:
    """The status: global and regional sizes, then queues, delayed sets, workers and warnings.

    Sizes count due, waiting jobs. `running` are the jobs with status processing.
    """
    waiting = [(count.lane, count.ready) for count in snapshot.lanes if count.ready]
    return {
        "global_retry_queue_size": sum(n for lane, n in waiting if is_global_retry(lane)),
        "regions": regions(snapshot, waiting, running, facts),
        "queues": queues(snapshot, waiting, facts),
        "delayed": {name: delayed(counts) for name, counts in sorted(snapshot.delayed.items())},
        "workers": [worker(view) for view in snapshot.workers],
        "warnings": warnings(snapshot, facts),
        "now": snapshot.now,
    }


def region_status(whole: Mapping[str, Any], region: str) -> dict[str, Any]:
    """One region out of a status; its running jobs also say whether they are retries."""
    known: dict[str, dict[str, Any]] = whole["regions"]
    if region not in known:
        message = f"region {region!r} is not one of {', '.join(known) or 'none so far'}"
        raise InvalidError(message)
    part = {"region": region} | known[region]
    if part["current_job"] is not None:
        part["current_job"] = with_retry(part["current_job"])
    if "current_jobs" in part:
        part["current_jobs"] = [with_retry(job) for job in part["current_jobs"]]
    return part


def with_retry(shown: dict[str, Any]) -> dict[str, Any]:
    """A running job that also says whether it is a retry."""
    return shown | {"is_retry": shown["retry_count"] > 0}


def is_global_retry(lane: Lane) -> bool:
    """Whether it is a lane of retries that any region may take."""
    return lane.is_retry and lane.is_global


def regions(
    snapshot: Snapshot, waiting: Sequence[tuple[Lane, int]], running: Iterable[Job], facts: Facts
) -> dict[str, dict[str, Any]]:
    """Each region that ever had a worker or has a job, by name."""
    here: dict[str, list[Job]] = defaultdict(list)
    for job in sorted(running, key=lambda job: (job.started_at or 0.0, job.id)):
        here[job.worker_region or plain_region(job.region)].append(job)
    known = {region.name for region in facts.regions}
    known |= {view.worker.region for view in snapshot.workers}
    own: dict[str, list[tuple[Lane, int]]] = defaultdict(list)
    for lane, ready in waiting:
        if not is_global_retry(lane):
            own[plain_region(lane.scope)].append((lane, ready))
    known |= own.keys() | here.keys()
    return {name: region_of(name, own.get(name, []), here.get(name, [])) for name in sorted(known)}


def region_of(
    name: str, waiting: Sequence[tuple[Lane, int]], jobs: Sequence[Job]
) -> dict[str, Any]:
    """The sizes of one region and what runs there, the longest-running first."""
    shown = [current(job, name) for job in jobs]
    part: dict[str, Any] = {
        "queue_size": sum(n for lane, n in waiting if not lane.is_retry),
        "retry_queue_size": sum(n for lane, n in waiting if lane.is_retry),
        "processing": bool(shown),
        "current_job": shown[0] if shown else None,
    }
    return part | ({"current_jobs": shown} if len(shown) > 1 else {})


def current(job: Job, region: str) -> dict[str, Any]:
    """A running job, with its own region if it runs in another.

    A job for any region is never in another.
    """
    shown: dict[str, Any] = {"job_id": job.id, "retry_count": job.retry_count}
    origin = plain_region(job.region)
    return shown if origin in (region, ANYWHERE) else shown | {"original_region": origin}


def names(snapshot: Snapshot, facts: Facts) -> list[str]:
    """Every queue that has a job, a worker, settings or a pause."""
    found = {count.lane.queue for count in snapshot.lanes}
    found |= {name for name, _ in snapshot.running} | {name for name, _ in snapshot.ended}
    found |= {name for view in snapshot.workers for name in view.worker.queues}
    return sorted(found | set(facts.queues) | facts.paused)


def queues(
    snapshot: Snapshot, waiting: Sequence[tuple[Lane, int]], facts: Facts
) -> dict[str, dict[str, Any]]:
    """Each queue: what waits by kind, what runs, what has ended and is still stored."""
    found: dict[str, dict[str, Any]] = {
        name: {
            **dict.fromkeys(("fresh", "urgent", "retry", "running"), 0),
            **{word: snapshot.ended.get((name, word), 0) for word in ENDED},
            "paused": name in facts.paused,
            "policy": policy_text(facts.queue(name).policy),
        }
        for name in names(snapshot, facts)
    }
    for lane, ready in waiting:
        kind = "retry" if lane.is_retry else "urgent" if lane.is_urgent else "fresh"
        found[lane.queue][kind] += ready
    for (name, _), count in snapshot.running.items():
        found[name]["running"] += count
    return found


WORDS = {"retries": "retries", "fresh": "fresh jobs"}
ENDED: tuple[Status, ...] = ("done", "failed", "cancelled")


def delayed(counts: DelayedCount) -> dict[str, int]:
    """A delayed set."""
    return {
        "total": counts.total,
        "ready_now": counts.ready_now,
        "ready_in_hour": counts.ready_in_hour,
    }


def worker(view: WorkerView) -> dict[str, Any]:
    """A worker."""
    return {
        "id": view.worker.id,
        "name": view.worker.name,
        "region": view.worker.region,
        "queues": list(view.worker.queues),
        "only": view.worker.only,
        "concurrency": view.worker.concurrency,
        "live": view.live,
        "running": view.running,
        "beat_at": view.beat_at,
        "joined_at": view.joined_at,
    }


def warnings(snapshot: Snapshot, facts: Facts) -> list[str]:
    """A sentence for each queue under `separate` that has no workers for one kind of job."""
    said = []
    separate = sorted(q for q, each in facts.queues.items() if isinstance(each.policy, Separate))
    taken: dict[str, set[Only | None]] = {name: set() for name in separate}
    for view in snapshot.workers:
        for name in taken.keys() & view.worker.queues if view.live else ():
            taken[name].add(view.worker.only)
    for name in separate:
        for kind, other in (("retries", "fresh"), ("fresh", "retries")):
            if taken[name] == {other}:
                said.append(
                    f"queue {name} has policy separate and no live worker for its {WORDS[kind]};"
                    f" start one with: mulligan worker APP --only {kind}"
                )
    return said
