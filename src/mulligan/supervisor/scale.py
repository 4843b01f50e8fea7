"""How many processes of a kind there should be: a pure function of what waits and what runs."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from mulligan.core.facts import Facts
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.plan import ClaimPlan
from mulligan.core.stats import LaneStats, Stats
from mulligan.engine.due_lanes import due_lanes
from mulligan.supervisor.fleet import Kind


class Load(NamedTuple):
    """The work of a kind at one instant: due jobs that it may take, and those it is running.

    Of jobs that a cap or a budget holds back, no more are ready than it lets start at a time, and
    they do not count as waiting: another process would not start them sooner.
    """

    ready: int = 0
    oldest_wait: float = 0.0
    busy: int = 0


class Wanted(NamedTuple):
    """How many processes, and why."""

    number: int
    why: str


def wanted(kind: Kind, load: Load | None, alive: int, *, starting: int = 0) -> Wanted:
    """How many there should be, of which `alive` run and `starting` of those are not ready yet.

    As many as have a slot for every job that waits or runs. One more than there are when the
    oldest job waits longer than `max_wait` although all are ready: then slots are not what is
    short. Without a load, what runs is kept.
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
    """What a store has for the kind; `workers` are the beginnings of the ids of its processes.

    The lanes are those that a claim of such a worker would look at: paused queues have none, and
    a global retry that is left to another region counts when its grace is over.
    """
    plan = plan_claim(1, kind.region, [(q, Carry()) for q in kind.serves], facts, kind.only)
    free, gated = parted(due_lanes(plan, stats), plan)
    return Load(
        ready=sum(lane.ready for lane in free)
        + sum(min(limit, sum(lane.ready for lane in lanes)) for limit, lanes in gated),
        oldest_wait=max((max(0.0, stats.now - lane.oldest_due) for lane in free), default=0.0),
        busy=sum(
            view.running
            for view in stats.workers
            if view.live and view.worker.id.startswith(tuple(workers))
        ),
    )


def parted(
    lanes: Sequence[LaneStats], plan: ClaimPlan
) -> tuple[list[LaneStats], list[tuple[int, list[LaneStats]]]]:
    """Lanes that start whatever has a slot, and those behind one gate with the gate's limit."""
    free: list[LaneStats] = []
    gated: dict[tuple[str, int], list[LaneStats]] = {}
    for lane in lanes:
        gates = plan.by_lane[lane.lane].limits
        limits = [(gate.limit, gate.key) for gate in gates if gate.limit is not None]
        if limits:
            limit, key = min(limits)
            gated.setdefault((key, limit), []).append(lane)
        else:
            free.append(lane)
    return free, [(limit, found) for (_, limit), found in gated.items()]
