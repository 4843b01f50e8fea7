"""Due jobs that a paused limit keeps from starting, and limits that operators should see."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec import Struct

from mulligan.core.job import Job
from mulligan.core.lane import Lane
from mulligan.core.limits import LimitView, costs_of
from mulligan.core.stats import LaneStats


class HeldUp(Struct, frozen=True):
    """Which of the pending jobs that were read wait for paused limits.

    `jobs` counts them by lane; `others` is when the oldest of the other due jobs was due. `queues`
    are the paused limits by queue, where all due jobs wait for them.
    """

    jobs: dict[Lane, int] = {}
    others: dict[Lane, float] = {}
    queues: dict[str, list[str]] = {}

    def startable(self, lanes: Sequence[LaneStats]) -> list[LaneStats]:
        """The lanes without the held-up jobs.

        Where not all jobs of a lane were read, the other ones are as old as those that were.
        """
        return [self._without(each) if each.lane in self.jobs else each for each in lanes]

    def _without(self, lane: LaneStats) -> LaneStats:
        oldest = self.others.get(lane.lane)
        ready = 0 if oldest is None else max(0, lane.ready - self.jobs[lane.lane])
        return LaneStats(lane.lane, ready, lane.delayed, oldest or lane.oldest_due)


NOTHING_HELD_UP = HeldUp()


def held_up(pending: Iterable[Job], paused: Collection[str], now: float) -> HeldUp:
    """What the paused limits hold up among these pending jobs."""
    jobs: Counter[Lane] = Counter()
    others: dict[Lane, float] = {}
    limits: dict[str, set[str]] = defaultdict(set)
    free: set[str] = set()
    for job in pending:
        if job.awaits or job.due > now:
            continue
        waits_for = {name for name, _ in costs_of(job.limits)}.intersection(paused)
        if waits_for:
            jobs[job.lane] += 1
            limits[job.queue] |= waits_for
        else:
            others[job.lane] = min(job.due, others.get(job.lane, job.due))
            free.add(job.queue)
    queues = {queue: sorted(limits[queue]) for queue in limits.keys() - free}
    return HeldUp(dict(jobs), others, queues)


def paused_limits(limits: Iterable[LimitView], now: float) -> frozenset[str]:
    """The names of the limits that are paused now."""
    return frozenset(view.name for view in limits if is_paused(view, now))


def tight_limits(limits: Iterable[LimitView], now: float) -> list[dict[str, Any]]:
    """The limits that are paused, and then the full ones that jobs wait for, as plain values."""
    paused = [view for view in limits if is_paused(view, now)]
    full = [view for view in limits if view.waiting and not is_paused(view, now)]
    full = [view for view in full if view.room_at is None or view.room_at > now]
    return [
        {
            "name": view.name,
            "state": "paused" if is_paused(view, now) else "full",
            "paused_until": view.paused_until if is_paused(view, now) else None,
            "waiting": view.waiting,
            "running": view.running,
        }
        for view in (*paused, *sorted(full, key=lambda view: -view.waiting))
    ]


def is_paused(view: LimitView, now: float) -> bool:
    """Whether the limit is paused now."""
    return view.paused_until is not None and view.paused_until > now
