"""Counts of everything in the store, at one instant."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mulligan.core.lane import Lane
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView
from mulligan.stores.memory.record import Record

if TYPE_CHECKING:
    from mulligan.core.job import Status


def count(
    records: Iterable[Record], workers: list[tuple[Worker, float, float, bool]], now: float
) -> Stats:
    """Go over all jobs once and count them."""
    lanes: dict[Lane, list[float]] = defaultdict(list)
    running: dict[tuple[str, str], int] = defaultdict(int)
    ended: dict[tuple[str, Status], int] = defaultdict(int)
    delayed: dict[str, list[float]] = defaultdict(list)
    held_by: dict[str, int] = defaultdict(int)
    gathering: dict[str, int] = defaultdict(int)
    for record in records:
        queue = record.new.queue
        if record.status == "pending" and record.awaits:
            gathering[queue] += 1
        elif record.status == "pending":
            lanes[record.lane].append(record.due)
            if record.delayed:
                delayed[queue].append(record.due)
        elif record.status == "processing":
            running[queue, record.worker_region or record.new.region] += 1
            held_by[record.worker or ""] += 1
        else:
            ended[queue, record.status] += 1
    return Stats(
        now,
        [lane_stats(lane, dues, now) for lane, dues in sorted(lanes.items())],
        dict(running),
        dict(ended),
        {queue: delayed_stats(dues, now) for queue, dues in delayed.items()},
        [
            WorkerView(worker, beat, joined, live, held_by[worker.id])
            for worker, beat, joined, live in workers
        ],
        dict(gathering),
    )


def lane_stats(lane: Lane, dues: list[float], now: float) -> LaneStats:
    """How many of the lane's jobs could start now, and how many not yet."""
    ready = sum(due <= now for due in dues)
    return LaneStats(lane, ready, len(dues) - ready, min(dues))


def delayed_stats(dues: list[float], now: float) -> DelayedStats:
    """The delayed set of a queue, by when its jobs fall due."""
    soon = sum(due <= now + 3600 for due in dues)
    return DelayedStats(len(dues), sum(due <= now for due in dues), soon)
