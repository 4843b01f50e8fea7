"""The load of a queue: what one more worker could start now, which is not all that waits."""

from mulligan.core.facts import Facts
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.lane import ANYWHERE, Lane
from mulligan.core.plan import Source
from mulligan.core.status import Snapshot
from mulligan.core.unserved import region_of
from mulligan.core.worker import DEFAULT_REGION


def startable(snapshot: Snapshot, facts: Facts) -> dict[tuple[str, str], int]:
    """Due jobs by queue and region that a worker could start now; `*` is any region.

    None of a paused queue; of those behind a cap or a budget as many as it allows. Every known
    queue is there, so that the load of one in which nothing may start is 0 and not unknown.
    """
    sources = taken_by_anyone(snapshot, facts)
    served = {queue for region in facts.regions for queue in region.serves}
    found = {(queue, ANYWHERE): 0 for queue in served | set(facts.queues)}
    found |= {(each.lane.queue, region_of(each.lane)): 0 for each in snapshot.lanes}
    left: dict[str, int] = {}
    for each in snapshot.lanes:
        source = sources.get(each.lane)
        if source is None or snapshot.now - each.oldest_due < source.waited:
            continue
        ready = each.ready
        if (limit := tightest(source)) is not None:
            most, key = limit
            ready = min(ready, left.setdefault(key, most))
            left[key] -= ready
        found[each.lane.queue, region_of(each.lane)] += ready
    return found


def taken_by_anyone(snapshot: Snapshot, facts: Facts) -> dict[Lane, Source]:
    """The lanes that a worker of some region would take from, whether it lives or not."""
    queues = [(queue, Carry()) for queue in sorted({each.lane.queue for each in snapshot.lanes})]
    regions = {region.name for region in facts.regions}
    regions |= {each.lane.scope for each in snapshot.lanes if not each.lane.is_global}
    found: dict[Lane, Source] = {}
    for region in sorted(regions or {DEFAULT_REGION}):
        for lane, source in plan_claim(1, region, queues, facts).by_lane.items():
            if lane not in found or source.waited < found[lane].waited:
                found[lane] = source
    return found


def tightest(source: Source) -> tuple[int, str] | None:
    """The limit that lets the fewest jobs of a lane start, and its key; None without one."""
    bounds = [(limit.limit, limit.key) for limit in source.limits if limit.limit is not None]
    return min(bounds, default=None)
