"""Which lanes have work that a plan would take, limits aside."""

from mulligan.core.plan import ClaimPlan
from mulligan.core.stats import LaneStats, Stats


def due_lanes(plan: ClaimPlan, stats: Stats) -> list[LaneStats]:
    """The lanes of the plan with jobs that have been due for as long as it asks."""
    sources = plan.by_lane
    return [
        lane
        for lane in stats.lanes
        if lane.ready
        and (source := sources.get(lane.lane)) is not None
        and stats.now - lane.oldest_due >= source.waited
    ]
