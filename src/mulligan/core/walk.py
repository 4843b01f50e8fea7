"""The oracle: what walking a plan over lanes gives.

The memory store is built on it, and every other store is held to it.
"""

from collections.abc import Iterable, KeysView, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from mulligan.core.durations import rounded
from mulligan.core.lane import Lane
from mulligan.core.plan import ClaimPlan, Group, Limit, Source

Entry = TypeVar("Entry")
Entry_co = TypeVar("Entry_co", covariant=True)
Tiers = Sequence[Sequence[Source]]


class Lanes(Protocol):
    """The lanes and limits of a store, to be looked at."""

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """(due, sequence) of the first job in the lane, due or not."""

    def waits(self, source: Source) -> float:
        """How long a job must have been due; nothing where the source yields and nobody sleeps."""

    def room(self, limit: Limit) -> int:
        """How many more starts the limit allows now."""

    def reopens_in(self, limit: Limit) -> float | None:
        """Seconds until a closed limit opens by itself; None if only another's end opens it."""


class Lines(Lanes, Protocol[Entry_co]):
    """The lanes of a store, to be taken from."""

    def take(self, lane: Lane, limits: tuple[Limit, ...]) -> Entry_co | None:
        """Take the first job out and charge the limits; None if it had to be set aside."""


class Walked(NamedTuple, Generic[Entry]):
    """What was taken, which groups still hold claimable work, and when to look again."""

    taken: list[Entry]
    left: tuple[bool, ...]
    again_in: float | None


def walk(
    plan: ClaimPlan, lines: Lines[Entry], now: float, among: KeysView[Lane] | None = None
) -> Walked[Entry]:
    """Take up to `plan.demand` jobs by walking its steps in order.

    A store that knows it says `among` which lanes there may be jobs; all others are empty.
    """
    taken: list[Entry] = []
    counts = [0] * len(plan.groups)
    standing: Sequence[Tiers] = occupied(plan, lines, among)
    if not any(standing):
        return Walked(taken, (False,) * len(standing), None)
    for step in plan.steps:
        tiers = standing[step.group]
        if not tiers:
            continue
        if len(taken) >= plan.demand:
            break
        room = step.room(counts, plan.demand)
        for place in range(len(tiers)):
            while room > 0:
                source = first_due(standing[step.group][place], lines, now)
                if source is None:
                    break
                entry = lines.take(source.lane, source.limits)
                if entry is None:
                    # What was set aside may have let others into lanes that were empty.
                    standing = [group.tiers for group in plan.groups]
                    continue
                taken.append(entry)
                counts[step.group] += 1
                room -= 1
    left = tuple([bool(tiers) and could_start(tiers, lines, now) for tiers in standing])
    met = len(taken) >= plan.demand
    return Walked(taken, left, None if met else soonest(standing, lines, now))


def occupied(
    plan: ClaimPlan, lines: Lanes, among: KeysView[Lane] | None
) -> list[list[list[Source]]]:
    """The tiers of each group without their empty lanes, which are most; none of an empty group."""
    standing: list[list[list[Source]]] = [[] for _ in plan.groups]
    spots = plan.spots
    for lane in spots if among is None else spots.keys() & among:
        if lines.head(lane) is not None:
            for group, tier, source in spots[lane]:
                if not standing[group]:
                    standing[group] = [[] for _ in plan.groups[group].tiers]
                standing[group][tier].append(source)
    return standing


def first_due(tier: Sequence[Source], lines: Lanes, now: float) -> Source | None:
    """The source of the tier whose first job is next by (due, sequence), if any may start now."""
    best: Source | None = None
    best_key: tuple[float, int] | None = None
    for source in tier:
        key = lines.head(source.lane)
        if key is None or key[0] > now or (best_key and key >= best_key):
            continue
        wait = lines.waits(source)
        if wait and rounded(key[0] + wait) > now:
            continue
        if all(lines.room(limit) > 0 for limit in source.limits):
            best, best_key = source, key
    return best


def group_waits(group: Group, lines: Lanes, now: float) -> bool:
    """Whether a job of the group could start now."""
    return could_start(group.tiers, lines, now)


def could_start(tiers: Tiers, lines: Lanes, now: float) -> bool:
    """Whether a job in one of the tiers could start now."""
    return any(first_due(tier, lines, now) is not None for tier in tiers)


def next_yield(plan: ClaimPlan, lines: Lanes, now: float) -> float | None:
    """Seconds until the plan could yield a job if nothing else happens; None: not by itself."""
    return soonest([group.tiers for group in plan.groups], lines, now)


def soonest(groups: Iterable[Tiers], lines: Lanes, now: float) -> float | None:
    """Seconds until one of the groups could yield a job; None if none could by itself."""
    waits = [yields_in(source, lines, now) for tiers in groups for tier in tiers for source in tier]
    return min((wait for wait in waits if wait is not None), default=None)


def yields_in(source: Source, lines: Lanes, now: float) -> float | None:
    """Seconds until the source could yield a job; None if it is empty or waits for a permit."""
    head = lines.head(source.lane)
    if head is None:
        return None
    wait = lines.waits(source)
    wait = max(0.0, (rounded(head[0] + wait) if wait else head[0]) - now)
    for limit in source.limits:
        if lines.room(limit) <= 0:
            opens = lines.reopens_in(limit)
            if opens is None:
                return None
            wait = max(wait, opens)
    return wait


def sources(plan: ClaimPlan) -> tuple[Source, ...]:
    """Every source of the plan."""
    return plan.sources
