"""The values of gauges: what waits and runs in a store now, and what its facts say."""

from collections import defaultdict
from collections.abc import Callable, Iterator

from mulligan.core.facts import Facts
from mulligan.core.lane import Lane
from mulligan.core.load import startable
from mulligan.core.metric import Sample, labels
from mulligan.core.plan import Rate
from mulligan.core.status import Snapshot
from mulligan.core.unserved import region_of, unserved
from mulligan.core.worker import Worker


def waiting(snapshot: Snapshot) -> Iterator[Sample]:
    """Due, waiting jobs, by lane; the lanes that any region may take from are one."""
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for each in snapshot.lanes:
        found[labels_of(each.lane)] += each.ready
    for (queue, region, lane), ready in found.items():
        yield Sample(labels(queue, region, lane=lane), ready)


def oldest_waits(snapshot: Snapshot) -> Iterator[Sample]:
    """How long the first due job of each lane has waited."""
    found: dict[tuple[str, str, str], float] = defaultdict(float)
    for each in snapshot.lanes:
        if each.ready:
            key = labels_of(each.lane)
            found[key] = max(found[key], snapshot.now - each.oldest_due)
    for (queue, region, lane), seconds in found.items():
        yield Sample(labels(queue, region, lane=lane), seconds)


def labels_of(lane: Lane) -> tuple[str, str, str]:
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
    """How many workers that take jobs live in each region that ever had one."""
    return by_region(snapshot, facts, lambda _: 1)


def worker_slots(snapshot: Snapshot, facts: Facts) -> Iterator[Sample]:
    """How many jobs the live workers of each region can run at a time."""
    return by_region(snapshot, facts, lambda worker: worker.concurrency)


def by_region(
    snapshot: Snapshot, facts: Facts, number: Callable[[Worker], int]
) -> Iterator[Sample]:
    """A sum over the live workers that take jobs, of each region that ever had one."""
    found = dict.fromkeys((region.name for region in facts.regions), 0)
    for view in snapshot.workers:
        found.setdefault(view.worker.region, 0)
        found[view.worker.region] += number(view.worker) if view.runs_jobs else 0
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
