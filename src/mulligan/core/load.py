"""The load of a queue: what one more worker could start now, which is not all that waits."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice

from mulligan.core.facts import Facts
from mulligan.core.fairness import limits_in
from mulligan.core.lane import ANYWHERE, Lane, plain_region
from mulligan.core.plan import Limit
from mulligan.core.status import Snapshot
from mulligan.core.takers import Taker, Takers, named_region, takers_of
from mulligan.core.unserved import region_of
from mulligan.core.worker import DEFAULT_REGION


def startable(snapshot: Snapshot, facts: Facts) -> dict[tuple[str, str], int]:
    """Due jobs by queue and region that a worker could start now; `*` is any region.

    None of a paused queue; of those behind a cap or a budget as many as it allows. Every known
    queue is there, so that the load of one in which nothing may start is 0 and not unknown.
    """
    takers = takers_anywhere(snapshot, facts)
    served = {queue for region in facts.regions for queue in region.serves}
    found = {(queue, ANYWHERE): 0 for queue in served | set(facts.queues)}
    found |= {(each.lane.queue, region_of(each.lane)): 0 for each in snapshot.lanes}
    left: dict[str, int] = {}
    for each in snapshot.lanes:
        queue = each.lane.queue
        first = None if queue in facts.paused else takers[queue].first(each.lane)
        if first is None or snapshot.now - each.oldest_due < first[0]:
            continue
        ready = each.ready
        if (limit := tightest(limits_on(each.lane, first[1], facts))) is not None:
            most, key = limit
            ready = min(ready, left.setdefault(key, most))
            left[key] -= ready
        found[each.lane.queue, region_of(each.lane)] += ready
    return found


def takers_anywhere(snapshot: Snapshot, facts: Facts) -> dict[str, Takers]:
    """Workers of the regions that matter to the lanes with jobs, by queue, alive or not.

    These are the regions that the lanes name, and two others that do not only probe.
    """
    named: dict[str, set[str]] = defaultdict(set)
    for each in snapshot.lanes:
        named[each.lane.queue].add(named_region(each.lane))
    scopes = {plain_region(each.lane.scope) for each in snapshot.lanes if not each.lane.is_global}
    known = facts.known_regions | scopes
    regions = sorted(known or {DEFAULT_REGION})
    found = {}
    for queue, names in named.items():
        others = islice((each for each in regions if not facts.is_open(queue, each)), 2)
        chosen = dict.fromkeys([*sorted(names & known), *others])
        found[queue] = takers_of(queue, [(region, None) for region in chosen], facts)
    return found


def limits_on(lane: Lane, taker: Taker, facts: Facts) -> tuple[Limit, ...]:
    """The limits on what the taker takes from the lane."""
    pause = facts.health_of(lane.queue, taker.region).breaker.pause if taker.probes else None
    retry, fresh = limits_in(lane.queue, taker.region, facts.queue(lane.queue), pause)
    return retry if lane.is_retry else fresh


def tightest(limits: Iterable[Limit]) -> tuple[int, str] | None:
    """The limit that lets the fewest jobs of a lane start, and its key; None without one."""
    bounds = [(limit.limit, limit.key) for limit in limits if limit.limit is not None]
    return min(bounds, default=None)
