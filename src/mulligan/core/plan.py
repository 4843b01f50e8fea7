"""What a worker asks a store for: a plan is data, and a store only walks it.

A plan names groups of lanes and the steps in which to take from them. Everything a fetch policy,
a budget, a cap, a breaker or a grace means is in the plan; a store knows none of these words.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.lane import Lane

Kind = Literal["urgent", "retry", "fresh"]
# Shares are counted in millionths of a start, so that sums of them are exact.
ONE = 1_000_000


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
            shared = sum(taken[group] for group in self.of) + room
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
    so that a pause or a new policy holds from the moment it is stored.
    """

    demand: int
    groups: tuple[Group, ...]
    steps: tuple[Take, ...]
    epoch: int = 0

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Every source of the plan."""
        return tuple(s for group in self.groups for tier in group.tiers for s in tier)

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
