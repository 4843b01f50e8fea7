"""A store at one instant, in numbers."""

from msgspec import Struct

from mulligan.core.job import Status
from mulligan.core.lane import Lane
from mulligan.core.plan import ClaimPlan
from mulligan.core.worker import WorkerView


class LaneStats(Struct, frozen=True):
    """A lane that is not empty: how many of its jobs are due, and how many are not yet."""

    lane: Lane
    ready: int
    delayed: int
    oldest_due: float


class DelayedStats(Struct, frozen=True):
    """The delayed set of a queue: all jobs that were delayed and have not started since.

    `ready_in_hour` counts `ready_now` too.
    """

    total: int = 0
    ready_now: int = 0
    ready_in_hour: int = 0


class ShardView(Struct, frozen=True):
    """One of several shards: how many jobs wait and run there, or why it is away."""

    shard: int
    url: str
    waiting: int = 0
    running: int = 0
    away: str | None = None


class Stats(Struct, frozen=True):
    """A store at one instant. Only lanes, queues and regions with something in them appear.

    `gathering` counts, by queue, jobs that are in no lane because they await others. `shards` are
    those of an app that has several.
    """

    now: float
    lanes: list[LaneStats]
    running: dict[tuple[str, str], int]
    ended: dict[tuple[str, Status], int]
    delayed: dict[str, DelayedStats]
    workers: list[WorkerView]
    gathering: dict[str, int] = {}
    shards: tuple[ShardView, ...] = ()


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
