"""Why is my job waiting? One sentence, from what a store knows."""

from msgspec import Struct

from mulligan.core.facts import Facts
from mulligan.core.fetch import Capped
from mulligan.core.flow import flow_of
from mulligan.core.job import Job
from mulligan.core.lane import ANYWHERE

# Below this many seconds a tenth matters.
WHOLE_FROM = 10


class Surroundings(Struct, frozen=True):
    """What is around a job: the time, what stands before it, who could take it."""

    now: float
    ahead: int
    facts: Facts
    live_workers: int


def explain(job: Job, around: Surroundings) -> str:
    """Say why the job is where it is: what it waits for, until when, behind how many."""
    match job.status:
        case "done":
            return f"Done{_ago(job.ended_at, around.now)}, at attempt {job.retry_count + 1}."
        case "failed":
            return (
                f"Failed for good{_ago(job.ended_at, around.now)} at attempt"
                f" {job.retry_count + 1}: {job.last_failure_reason}; replay it to try again."
            )
        case "cancelled":
            return f"Cancelled{_ago(job.ended_at, around.now)}: {job.cancel_reason}."
        case "processing":
            return (
                f"Running attempt {job.retry_count + 1} on worker {job.worker} in region"
                f" {job.worker_region} since {_span(around.now - (job.started_at or around.now))}."
            )
        case _:
            return _waiting(job, around)


def _waiting(job: Job, around: Surroundings) -> str:
    lane = job.lane
    if job.queue in around.facts.paused:
        due = f", and it is due in {_span(job.due - around.now)}" if job.due > around.now else ""
        return f"Waiting because queue {job.queue} is paused{due}; resume it to go on."
    if job.awaits:
        flow = flow_of(job.body)
        of = f" of {flow.members}" if flow is not None and flow.members else ""
        return (
            f"Waiting for {job.awaits}{of} jobs whose results it gathers;"
            " those that failed arrive when they are replayed and succeed."
        )
    if job.due > around.now:
        what = (
            f"Waiting for retry {job.retry_count} after: {job.last_failure_reason};"
            if job.retry_count
            else "Delayed;"
        )
        return f"{what} it is due in {_span(job.due - around.now)}{_where(job)}."
    if job.held:
        return (
            f"Waiting for concurrency key {job.concurrency_key!r}, of which"
            f" {job.concurrency_limit} may run at a time."
        )
    if not around.live_workers:
        place = "any region" if lane.is_global else f"region {job.scope}"
        return (
            f"Waiting because no live worker serves queue {job.queue} in {place};"
            " start one with: mulligan worker APP"
        )
    reasons = [f"{around.ahead} ahead of it in lane {lane.label}{_where(job)}"]
    if not lane.is_global and around.facts.is_open(job.queue, lane.scope):
        reasons.append(f"the breaker of region {lane.scope} is open: it takes one job at a time")
    settings = around.facts.queue(job.queue)
    if lane.is_retry and isinstance(settings.policy, Capped):
        reasons.append(f"at most {settings.policy.limit} retries of the queue run at a time")
    if lane.is_retry and settings.budget is not None:
        reasons.append("the queue's retry budget limits how many start")
    return f"Due since {_span(around.now - job.due)}: {'; '.join(reasons)}."


def _where(job: Job) -> str:
    if job.scope == ANYWHERE:
        return ", in any region"
    if job.scope.startswith("*-"):
        return f", in any region, at first not in {job.scope[2:]}"
    if job.scope.startswith("*+"):
        return f", in any region, at first in {job.scope[2:]}"
    return f", in region {job.scope}"


def _ago(at: float | None, now: float) -> str:
    return "" if at is None else f" {_span(now - at)} ago"


def _span(seconds: float) -> str:
    """A duration as people say it."""
    seconds = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < WHOLE_FROM else f"{seconds:.0f} s"
