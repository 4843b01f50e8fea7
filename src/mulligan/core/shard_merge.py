"""What several shards answer, as one answer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from mulligan.core.facts import Facts, Region
from mulligan.core.limits import KeyView
from mulligan.core.stats import DelayedStats, LaneStats, ShardView, Stats
from mulligan.core.worker import WorkerView

if TYPE_CHECKING:
    from mulligan.core.lane import Lane

K = TypeVar("K")


def merged_facts(facts: Sequence[Facts], epoch: int) -> Facts:
    """The facts of all shards: settings and health are the first one's, regions those of all."""
    home = facts[0]
    serves: dict[str, frozenset[str]] = {}
    for each in facts:
        for region in each.regions:
            serves[region.name] = serves.get(region.name, frozenset()) | region.serves
    regions = tuple([Region(name, serves[name]) for name in sorted(serves)])
    return replace(home, epoch=epoch, regions=regions)


def merged_stats(stats: Sequence[Stats], shards: tuple[ShardView, ...]) -> Stats:
    """The sums over all shards that answered."""
    lanes: dict[Lane, LaneStats] = {}
    delayed: dict[str, DelayedStats] = {}
    workers: dict[str, WorkerView] = {}
    for each in stats:
        for lane in each.lanes:
            known = lanes.get(lane.lane)
            lanes[lane.lane] = lane if known is None else merged_lane(known, lane)
        for queue, counts in each.delayed.items():
            before = delayed.get(queue, DelayedStats())
            delayed[queue] = DelayedStats(
                before.total + counts.total,
                before.ready_now + counts.ready_now,
                before.ready_in_hour + counts.ready_in_hour,
            )
        for view in each.workers:
            met = workers.get(view.worker.id)
            workers[view.worker.id] = view if met is None else merged_worker(met, view)
    return Stats(
        now=max(each.now for each in stats),
        lanes=[lanes[lane] for lane in sorted(lanes)],
        running=summed(each.running for each in stats),
        ended=summed(each.ended for each in stats),
        delayed=delayed,
        workers=list(workers.values()),
        gathering=summed(each.gathering for each in stats),
        shards=shards,
    )


def merged_lane(one: LaneStats, other: LaneStats) -> LaneStats:
    """A lane over two shards."""
    return LaneStats(
        one.lane,
        one.ready + other.ready,
        one.delayed + other.delayed,
        min(one.oldest_due, other.oldest_due),
    )


def merged_worker(one: WorkerView, other: WorkerView) -> WorkerView:
    """A worker as two shards know it: it is alive if one of them has seen it lately.

    A shard may know it only from before it was dead, and joined anew elsewhere.
    """
    first, last = sorted((one, other), key=lambda each: each.joined_at)
    was_dead = first.beat_at + first.worker.lease <= last.joined_at
    return WorkerView(
        one.worker,
        max(one.beat_at, other.beat_at),
        (last if was_dead else first).joined_at,
        one.live or other.live,
        one.running + other.running,
    )


def summed(counts: Iterable[dict[K, int]]) -> dict[K, int]:
    """The sums by key."""
    total: Counter[K] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def merged_keys(views: Iterable[KeyView], most: int) -> list[KeyView]:
    """Fairness keys over all shards; a key is as far behind as where it is furthest."""
    found: dict[tuple[Lane, str], KeyView] = {}
    for view in views:
        known = found.get((view.lane, view.key))
        found[view.lane, view.key] = (
            view
            if known is None
            else KeyView(
                view.lane, view.key, known.waiting + view.waiting, max(known.turns, view.turns)
            )
        )
    return sorted(found.values(), key=lambda each: (-each.waiting, each.lane, each.key))[:most]
