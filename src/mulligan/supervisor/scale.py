"""How many processes a kind should have: a pure function of what waits and what runs."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from mulligan.core.facts import Facts
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.load import tightest
from mulligan.core.plan import ClaimPlan
from mulligan.core.stats import LaneStats, Stats, due_lanes
from mulligan.supervisor.fleet import Kind


class Load(NamedTuple):
    """The work of a kind at one instant: due jobs that it may take, and jobs that it runs.

    Jobs behind a cap or a budget count as ready only up to its limit, and not in `oldest_wait`:
    another process would not start them sooner.
    """

    ready: int = 0
    oldest_wait: float = 0.0
    busy: int = 0


class Wanted(NamedTuple):
    """How many processes, and why."""

    number: int
    why: str


def wanted(kind: Kind, load: Load | None, alive: int, *, starting: int = 0) -> Wanted:
    """How many processes there should be; `alive` are, and `starting` of those are not ready yet.

    Enough to have a slot for every job that waits or runs. If the oldest job waits longer than
    `max_wait` although all processes are ready, one more than there are. Without a load, as many
    as there are.
    """
    if kind.service:
        return Wanted(1, "a service")
    if load is None:
        why = "no answer from the store yet" if kind.store else "no store is looked at"
        return clamped(kind, alive, why)
    jobs = load.ready + load.busy
    number = ceil(jobs / kind.slots)
    why = f"depth {load.ready}"
    if load.ready:
        why += f", oldest wait {load.oldest_wait:.0f} s"
    if load.busy:
        why += f", {load.busy} running"
    if load.ready and load.oldest_wait > kind.max_wait and not starting:
        number = max(number, alive + 1)
    return clamped(kind, number, why)


def clamped(kind: Kind, number: int, why: str) -> Wanted:
    """At least `min`, at most `max_concurrent`."""
    if number < kind.min:
        return Wanted(kind.min, f"{why}; min")
    if number > kind.max_concurrent:
        return Wanted(kind.max_concurrent, f"{why}; max_concurrent")
    return Wanted(number, why)


def load_of(kind: Kind, stats: Stats, facts: Facts, workers: frozenset[str]) -> Load:
    """The work that a store has for the kind; `workers` are the prefixes of its workers' ids.

    Counted are the lanes that a claim of such a worker would take from: none of a paused queue,
    and those of global retries meant for another region once their grace is over.
    """
    plan = plan_claim(1, kind.region, [(q, Carry()) for q in kind.serves], facts, kind.only)
    unlimited, limited = by_limit(due_lanes(plan, stats), plan)
    return Load(
        ready=sum(lane.ready for lane in unlimited)
        + sum(min(limit, sum(lane.ready for lane in lanes)) for limit, lanes in limited),
        oldest_wait=max((max(0.0, stats.now - lane.oldest_due) for lane in unlimited), default=0.0),
        busy=sum(
            view.running
            for view in stats.workers
            if view.live and view.worker.id.startswith(tuple(workers))
        ),
    )


def by_limit(
    lanes: Sequence[LaneStats], plan: ClaimPlan
) -> tuple[list[LaneStats], list[tuple[int, list[LaneStats]]]]:
    """Lanes without a limit, and those that share one, by how much it allows."""
    unlimited: list[LaneStats] = []
    limited: dict[tuple[str, int], list[LaneStats]] = {}
    for lane in lanes:
        if (limit := tightest(plan.by_lane[lane.lane].limits)) is None:
            unlimited.append(lane)
        else:
            most, key = limit
            limited.setdefault((key, most), []).append(lane)
    return unlimited, [(most, found) for (_, most), found in limited.items()]
