"""Whose turn it is: which of several shards gives, and which kind of work each gives.

Both are counted in millionths of a start. A worker has one of each for the shards that it takes
from: what its plan says of shares holds for its claims from all shards together, and would leave a
shard in which both kinds wait to give only one, where another gives the other at each turn.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from mulligan.core.fairness import clamp
from mulligan.core.job import Claim
from mulligan.core.plan import KIND_OF, ONE, ClaimPlan, Kind, Take


class Turns:
    """Whose turn it is among shards with work: the one that is owed most, in millionths of a start.

    What a claim takes from a shard is owed to the others that had work as well, in equal parts. A
    shard without work is owed nothing, so that none saves up for a burst.
    """

    def __init__(self, count: int) -> None:
        self.owed = [0] * count
        self._last = count - 1

    def order(self, among: Iterable[int]) -> list[int]:
        """The shards in the order in which to ask them; of equals the one asked longest ago."""
        count = len(self.owed)
        return sorted(
            among, key=lambda shard: (-self.owed[shard], (shard - self._last - 1) % count)
        )

    def settle(self, taken: Mapping[int, int], dry: Iterable[int]) -> None:
        """Note what a claim took from each shard that it asked, and which of them have no more."""
        for shard in dry:
            self.owed[shard] = 0
        emptied = set(dry)
        waiting = [shard for shard in range(len(self.owed)) if shard not in emptied]
        for shard, number in taken.items():
            self._last = shard
            if shard in emptied or not waiting:
                continue
            for each in waiting:
                self.owed[each] += number * ONE // len(waiting)
            self.owed[shard] -= number * ONE


class ShardShares:
    """What kinds of work are owed in one shard: it takes the place of what a plan says of it."""

    def __init__(self) -> None:
        self._owed: dict[tuple[str, Kind], int] = {}

    def fitted(self, plan: ClaimPlan) -> ClaimPlan:
        """The plan with what this shard owes."""
        if not any(step.carry != self._carry(plan, step) for step in plan.steps if step.of):
            return plan
        steps = [
            replace(step, carry=self._carry(plan, step)) if step.of else step for step in plan.steps
        ]
        return replace(plan, steps=tuple(steps))

    def settle(self, plan: ClaimPlan, claims: Sequence[Claim], left: Sequence[bool]) -> None:
        """Note what a claim by this plan took here, and which groups have more."""
        if len(claims) <= 1 and not any(left):
            return  # at most one kind was there: nothing was shared
        taken: dict[tuple[str, Kind], int] = {}
        for claim in claims:
            kind = claim.queue, KIND_OF[claim.lane_priority]
            taken[kind] = taken.get(kind, 0) + 1
        for step in {named(plan, step.group): step for step in plan.steps if step.of}.values():
            got = {group: taken.get(named(plan, group), 0) for group in step.of}
            waited = [group for group in step.of if got[group] or left[group]]
            if step.group in waited and len(waited) > 1:
                owed = self._carry(plan, step) + sum(got.values()) * step.share
                self._owed[named(plan, step.group)] = clamp(owed - got[step.group] * ONE)

    def _carry(self, plan: ClaimPlan, step: Take) -> int:
        return self._owed.get(named(plan, step.group), ONE - 1)


def named(plan: ClaimPlan, group: int) -> tuple[str, Kind]:
    """The queue and the kind of the group."""
    return plan.groups[group].queue, plan.groups[group].kind
