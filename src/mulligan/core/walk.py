"""The oracle: what walking a plan over lanes gives.

The memory store is built on it, and every other store is held to it.
"""

from collections.abc import Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from mulligan.core.durations import rounded
from mulligan.core.lane import Lane
from mulligan.core.plan import ClaimPlan, Gate, Group, Source

Entry = TypeVar("Entry")
Entry_co = TypeVar("Entry_co", covariant=True)


class Lanes(Protocol):
    """The lanes and gates of a store, to be looked at."""

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """(due, sequence) of the first job in the lane, due or not."""

    def room(self, gate: Gate) -> int:
        """How many more starts the gate allows now."""

    def reopens_in(self, gate: Gate) -> float | None:
        """Seconds until a closed gate opens by itself; None if only another's end opens it."""


class Lines(Lanes, Protocol[Entry_co]):
    """The lanes of a store, to be taken from."""

    def take(self, lane: Lane, gates: tuple[Gate, ...]) -> Entry_co | None:
        """Take the first job out and charge the gates; None if it had to be set aside."""


class Walked(NamedTuple, Generic[Entry]):
    """What was taken, which groups still hold claimable work, and when to look again."""

    taken: list[Entry]
    left: tuple[bool, ...]
    again_in: float | None


def walk(plan: ClaimPlan, lines: Lines[Entry], now: float) -> Walked[Entry]:
    """Take up to `plan.demand` jobs by walking its steps in order."""
    taken: list[Entry] = []
    counts = [0] * len(plan.groups)
    for step in plan.steps:
        room = step.room(counts, plan.demand)
        for tier in plan.groups[step.group].tiers:
            while room > 0:
                source = first_due(tier, lines, now)
                if source is None:
                    break
                entry = lines.take(source.lane, source.gates)
                if entry is not None:
                    taken.append(entry)
                    counts[step.group] += 1
                    room -= 1
    left = tuple(group_waits(group, lines, now) for group in plan.groups)
    met = len(taken) >= plan.demand
    return Walked(taken, left, None if met else next_yield(plan, lines, now))


def first_due(tier: tuple[Source, ...], lines: Lanes, now: float) -> Source | None:
    """The source of the tier whose first job is next by (due, sequence), if any may start now."""
    best: Source | None = None
    best_key: tuple[float, int] | None = None
    for source in tier:
        key = lines.head(source.lane)
        if key is None or rounded(key[0] + source.waited) > now or (best_key and key >= best_key):
            continue
        if all(lines.room(gate) > 0 for gate in source.gates):
            best, best_key = source, key
    return best


def group_waits(group: Group, lines: Lanes, now: float) -> bool:
    """Whether a job of the group could start now."""
    return any(first_due(tier, lines, now) is not None for tier in group.tiers)


def next_yield(plan: ClaimPlan, lines: Lanes, now: float) -> float | None:
    """Seconds until the plan could yield a job if nothing else happens; None: not by itself."""
    return min(
        (wait for source in sources(plan) if (wait := yields_in(source, lines, now)) is not None),
        default=None,
    )


def yields_in(source: Source, lines: Lanes, now: float) -> float | None:
    """Seconds until the source could yield a job; None if it is empty or waits for a permit."""
    head = lines.head(source.lane)
    if head is None:
        return None
    wait = max(0.0, rounded(head[0] + source.waited) - now)
    for gate in source.gates:
        if lines.room(gate) <= 0:
            opens = lines.reopens_in(gate)
            if opens is None:
                return None
            wait = max(wait, opens)
    return wait


def sources(plan: ClaimPlan) -> Iterator[Source]:
    """Every source of the plan."""
    return (source for group in plan.groups for tier in group.tiers for source in tier)
