"""What a worker asks a store for: a plan is data, and a store only walks it.

A plan names groups of lanes and the steps in which to take from them. Everything a fetch policy,
a budget, a cap, a breaker or a grace means is in the plan; a store knows none of these words.

`walk` is the oracle: what walking a plan over lanes gives. The memory store is built on it, and
every other store is held to it.
"""

from collections.abc import Iterable, KeysView, Mapping, Sequence
from functools import cached_property
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.checks import rounded
from mulligan.core.lane import Lane, Priority

Kind = Literal["urgent", "retry", "fresh"]
KIND_OF: dict[int, Kind] = {
    Priority.NORMAL: "fresh",
    Priority.RETRY: "retry",
    Priority.URGENT: "urgent",
    Priority.URGENT_RETRY: "urgent",
}
# Shares are counted in millionths of a start, so that sums of them are exact.
ONE = 1_000_000
Entry = TypeVar("Entry")
Entry_co = TypeVar("Entry_co", covariant=True)


class Cap(Struct, frozen=True, tag="running"):
    """A limit: at most `limit` claimed jobs hold a permit for `key` at a time, store-wide."""

    key: str
    limit: int


class Rate(Struct, frozen=True, tag="rate"):
    """A limit: at most `limit` starts for `key` in any window of `per` seconds, store-wide.

    With `of`, the limit grows to `ratio` times the starts counted there in the same window.
    A limit of None only counts. A store may forget what has left the window that it is asked for:
    where a key is given a longer one, its first may lack starts.
    """

    key: str
    limit: int | None
    per: float
    ratio: float = 0.0
    of: str = ""


Limit = Cap | Rate


class Source(Struct, frozen=True):
    """A lane to take from: only jobs due for at least `waited` seconds, as far as limits allow.

    One that yields waits only while another live worker sleeps that may take from the lane sooner.
    """

    lane: Lane
    waited: float = 0.0
    limits: tuple[Limit, ...] = ()
    yields: bool = False


Tiers = Sequence[Sequence[Source]]


class Group(Struct, frozen=True):
    """Sources of one kind of work in one queue.

    Tiers are emptied in order; the sources of one tier are merged by (due, sequence).
    """

    queue: str
    kind: Kind
    tiers: tuple[tuple[Source, ...], ...]


class Take(Struct, frozen=True):
    """One step: take from the group at this index until the claim has `until` jobs in all.

    A claim never takes more than its demand, whatever a step says.

    With `of`, the group gets no more than its share of what those groups get in this claim, in
    millionths, counted together with what it is owed from before (`carry`).
    """

    group: int
    until: int
    share: int = ONE
    carry: int = 0
    of: tuple[int, ...] = ()

    def room(self, taken: Sequence[int], demand: int) -> int:
        """How many jobs the step may take, given how many each group has had in this claim."""
        room = min(self.until, demand) - sum(taken)
        if self.of and room > 0:
            shared = sum([taken[group] for group in self.of]) + room
            room = min(room, (self.carry + shared * self.share) // ONE - taken[self.group])
        return max(0, room)


def yielding(group: Group, waited: float) -> Group:
    """The group of a worker that leaves jobs, for so long, to others who sleep and wait less."""
    return replace(
        group,
        tiers=tuple(
            tuple(s if s.waited else replace(s, waited=waited, yields=True) for s in tier)
            for tier in group.tiers
        ),
    )


class ClaimPlan(Struct, frozen=True, dict=True):
    """At most `demand` jobs, by walking the steps in order.

    `epoch` says which facts the plan was made from; a store refuses a plan made from older ones,
    so that a pause or a new policy holds from the moment it is stored. `weights` are those of
    fairness keys, by queue, where they are not 1.
    """

    demand: int
    groups: tuple[Group, ...]
    steps: tuple[Take, ...]
    epoch: int = 0
    weights: Mapping[str, Mapping[str, float]] = {}

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Every source of the plan."""
        return tuple(s for group in self.groups for tier in group.tiers for s in tier)

    @cached_property
    def reach(self) -> frozenset[Source]:
        """Its sources, in whatever order: what a worker that waits by this plan is woken for."""
        return frozenset(self.sources)

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """Every lane that the plan takes from."""
        return tuple(source.lane for source in self.sources)

    @cached_property
    def spots(self) -> dict[Lane, list[tuple[int, int, Source]]]:
        """Where each lane stands in the plan: in which group and tier, and as which source."""
        spots: dict[Lane, list[tuple[int, int, Source]]] = {}
        for number, group in enumerate(self.groups):
            for tier, sources in enumerate(group.tiers):
                for source in sources:
                    spots.setdefault(source.lane, []).append((number, tier, source))
        return spots

    @cached_property
    def by_lane(self) -> dict[Lane, Source]:
        """The source that takes from each lane."""
        return {source.lane: source for source in self.sources}

    @cached_property
    def limit_keys(self) -> frozenset[str]:
        """The keys of all limits."""
        return frozenset(limit.key for source in self.sources for limit in source.limits)


class ReadableLanes(Protocol):
    """The lanes and limits of a store, to be looked at."""

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """(due, sequence) of the first job in the lane, due or not."""

    def waits(self, source: Source) -> float:
        """How long a job must have been due; nothing where the source yields and nobody sleeps."""

    def room(self, limit: Limit) -> int:
        """How many more starts the limit allows now."""

    def reopens_in(self, limit: Limit) -> float | None:
        """Seconds until a closed limit opens by itself; None if only another's end opens it."""


class Lanes(ReadableLanes, Protocol[Entry_co]):
    """The lanes of a store, to be taken from."""

    def take(self, lane: Lane, limits: tuple[Limit, ...]) -> Entry_co | None:
        """Take the first job out and charge the limits; None if it had to be set aside."""


class Walked(NamedTuple, Generic[Entry]):
    """What was taken, which groups still hold claimable work, and when to look again."""

    taken: list[Entry]
    left: tuple[bool, ...]
    again_in: float | None


def walk(
    plan: ClaimPlan, lanes: Lanes[Entry], now: float, among: KeysView[Lane] | None = None
) -> Walked[Entry]:
    """Take up to `plan.demand` jobs by walking its steps in order.

    A store that knows it says `among` which lanes there may be jobs; all others are empty.
    """
    taken: list[Entry] = []
    counts = [0] * len(plan.groups)
    standing: Sequence[Tiers] = occupied(plan, lanes, among)
    if not any(standing):
        return Walked(taken, (False,) * len(standing), None)
    for step in plan.steps:
        tiers = standing[step.group]
        if not tiers:
            continue
        if len(taken) >= plan.demand:
            break
        room = step.room(counts, plan.demand)
        for tier in range(len(tiers)):
            while room > 0:
                source = first_due(standing[step.group][tier], lanes, now)
                if source is None:
                    break
                entry = lanes.take(source.lane, source.limits)
                if entry is None:
                    # What was set aside may have let others into lanes that were empty.
                    standing = [group.tiers for group in plan.groups]
                    continue
                taken.append(entry)
                counts[step.group] += 1
                room -= 1
    left = tuple([bool(tiers) and could_start(tiers, lanes, now) for tiers in standing])
    met = len(taken) >= plan.demand
    return Walked(taken, left, None if met else soonest(standing, lanes, now))


def occupied(
    plan: ClaimPlan, lanes: ReadableLanes, among: KeysView[Lane] | None
) -> list[list[list[Source]]]:
    """The tiers of each group without their empty lanes, which are most; none of an empty group."""
    # Empty groups share a list, which is never added to.
    standing: list[list[list[Source]]] = [[]] * len(plan.groups)
    spots = plan.spots
    for lane in spots if among is None else spots.keys() & among:
        if lanes.head(lane) is not None:
            for group, tier, source in spots[lane]:
                if not standing[group]:
                    standing[group] = [[] for _ in plan.groups[group].tiers]
                standing[group][tier].append(source)
    return standing


def first_due(tier: Sequence[Source], lanes: ReadableLanes, now: float) -> Source | None:
    """The source of the tier whose first job is next by (due, sequence), if any may start now."""
    best: Source | None = None
    best_key: tuple[float, int] | None = None
    for source in tier:
        key = lanes.head(source.lane)
        if key is None or key[0] > now or (best_key and key >= best_key):
            continue
        wait = lanes.waits(source) if source.yields else source.waited
        if wait and rounded(key[0] + wait) > now:
            continue
        if not source.limits or all(lanes.room(limit) > 0 for limit in source.limits):
            best, best_key = source, key
    return best


def group_waits(group: Group, lanes: ReadableLanes, now: float) -> bool:
    """Whether a job of the group could start now."""
    return could_start(group.tiers, lanes, now)


def could_start(tiers: Tiers, lanes: ReadableLanes, now: float) -> bool:
    """Whether a job in one of the tiers could start now."""
    return any(first_due(tier, lanes, now) is not None for tier in tiers)


def next_yield(plan: ClaimPlan, lanes: ReadableLanes, now: float) -> float | None:
    """Seconds until the plan could yield a job if nothing else happens; None: not by itself."""
    return soonest([group.tiers for group in plan.groups], lanes, now)


def soonest(groups: Iterable[Tiers], lanes: ReadableLanes, now: float) -> float | None:
    """Seconds until one of the groups could yield a job; None if none could by itself."""
    best: float | None = None
    for tiers in groups:
        for tier in tiers:
            for source in tier:
                wait = yields_in(source, lanes, now)
                if wait is not None and (best is None or wait < best):
                    best = wait
    return best


def yields_in(source: Source, lanes: ReadableLanes, now: float) -> float | None:
    """Seconds until the source could yield a job; None if it is empty or waits for a permit."""
    head = lanes.head(source.lane)
    if head is None:
        return None
    wait = lanes.waits(source) if source.yields else source.waited
    wait = max(0.0, (rounded(head[0] + wait) if wait else head[0]) - now)
    for limit in source.limits:
        if lanes.room(limit) <= 0:
            opens = lanes.reopens_in(limit)
            if opens is None:
                return None
            wait = max(wait, opens)
    return wait
