"""Which lanes have jobs that a plan would take if no limit held them back."""

from mulligan.core.plan import ClaimPlan
from mulligan.core.stats import LaneStats, Stats


def due_lanes(plan: ClaimPlan, stats: Stats) -> list[LaneStats]:
    """The lanes of the plan with a job that has been due for as long as the plan asks."""
    sources = plan.by_lane
    return [
        lane
        for lane in stats.lanes
        if lane.ready
        and (source := sources.get(lane.lane)) is not None
        and stats.now - lane.oldest_due >= source.waited
    ]
