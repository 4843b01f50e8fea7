"""Makes a ClaimPlan from queue policies: what gets how many of the free slots, in what order.

A carry, in millionths of a start, keeps shares exact over time. It changes only while both sides
wait and never exceeds one start, so that no side saves up for a burst.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.fetch import Balanced, Capped, Only, Weighted
from mulligan.core.lane import ANYWHERE, Lane, Priority, away_from, pinned_to, towards
from mulligan.core.plan import ONE, Cap, ClaimPlan, Group, Kind, Limit, Rate, Source, Take

URGENT_SHARE = 0.8
BALANCED_SHARE = 0.5
KINDS: tuple[Kind, ...] = ("urgent", "retry", "fresh")


class Carry(Struct, frozen=True):
    """What urgent work and retries are owed, in millionths of a start, from 0 to under one."""

    urgent: int = ONE - 1
    retry: int = ONE - 1


class ClaimCounts(Struct, frozen=True):
    """What a claim did for one queue: how many of each kind it took, and which still wait."""

    urgent: int = 0
    retry: int = 0
    fresh: int = 0
    left: frozenset[Kind] = frozenset()

    def waited(self, kind: Kind) -> bool:
        """Whether work of this kind could have been taken."""
        return kind in self.left or getattr(self, kind) > 0


class Bound(NamedTuple):
    """At most so many jobs from these queues together in one claim."""

    queues: frozenset[str]
    most: int


NO_BOUND = Bound(frozenset(), 0)
# The index of a queue's first group, its carry and its settings.
Round = tuple[int, Carry, QueueSettings]


def plan_claim(
    demand: int,
    region: str,
    queues: Sequence[tuple[str, Carry]],
    facts: Facts,
    only: Only | None = None,
    *,
    resting: Collection[str] = (),
    bound: Bound = NO_BOUND,
) -> ClaimPlan:
    """Plan a claim of `demand` jobs for a worker of `region`, from these queues in turn.

    Each queue gets an even part of the demand, the first ones the remainder; what a queue leaves
    goes to the others in the same order. Paused queues are left out. A queue is `resting` where
    the region's breaker is open and its next probe not due: the worker then takes nothing from it,
    and nothing is reserved for the worker. The queues of the `bound` come first, since the others
    do not compete for what bounds them, and get no more than it allows.
    """
    open_queues = [(q, carry) for q, carry in queues if q not in facts.paused]
    groups: list[Group] = []
    rounds: list[Round] = []
    bounded: list[Round] = []
    for queue, carry in open_queues:
        settings = facts.queue(queue)
        mine = bounded if queue in bound.queues else rounds
        mine.append((len(groups), carry, settings))
        if queue in resting or (mine is bounded and bound.most <= 0):
            groups.extend(Group(queue, kind, ()) for kind in KINDS)
        else:
            groups.extend(groups_of(queue, region, settings, facts, only))
    most = min(bound.most, demand) if bounded else 0
    steps = [*turns(bounded, 0, most), *turns(rounds, most, demand)]
    said = [(queue, facts.queue(queue).weights) for queue, _ in open_queues]
    weights = {queue: dict(each) for queue, each in said if each}
    return ClaimPlan(demand, tuple(groups), tuple(steps), facts.epoch, weights)


def turns(rounds: Sequence[Round], taken: int, until: int) -> list[Take]:
    """The steps by which queues take evenly, and then what others leave.

    The claim has at most `taken` jobs before them, and `until` after them.
    """
    steps: list[Take] = []
    room, so_far = until - taken, taken
    if len(rounds) > 1:
        for index, (first, carry, settings) in enumerate(rounds):
            so_far += room // len(rounds) + (index < room % len(rounds))
            steps.extend(steps_of(so_far, first, carry, settings))
    for first, carry, settings in rounds:
        steps.extend(steps_of(until, first, carry, settings))
    return steps


def steps_of(until: int, first: int, carry: Carry, settings: QueueSettings) -> list[Take]:
    """The steps by which one queue takes until the claim has `until` jobs.

    Its urgent, retry and fresh groups begin at index `first`. Each side with a share takes up to
    it, the other side the rest, and either takes what the other leaves.
    """
    urgent, retry, fresh = first, first + 1, first + 2
    steps = [Take(urgent, until, millionths(URGENT_SHARE), carry.urgent, (urgent, retry, fresh))]
    share = retry_share(settings)
    if share is not None:
        steps += [
            Take(retry, until, millionths(share), carry.retry, (retry, fresh)),
            Take(fresh, until),
        ]
    return [*steps, Take(retry, until), Take(fresh, until), Take(urgent, until)]


def settle(carry: Carry, counts: ClaimCounts, settings: QueueSettings) -> Carry:
    """The carry after a claim: the share of each side, less what it got."""
    others = counts.retry + counts.fresh
    urgent, retry = carry.urgent, carry.retry
    if counts.waited("urgent") and (counts.waited("retry") or counts.waited("fresh")):
        total = counts.urgent + others
        urgent = clamp(urgent + total * millionths(URGENT_SHARE) - counts.urgent * ONE)
    share = retry_share(settings)
    if share is not None and counts.waited("retry") and counts.waited("fresh"):
        retry = clamp(retry + others * millionths(share) - counts.retry * ONE)
    return Carry(urgent, retry)


def retry_share(settings: QueueSettings) -> float | None:
    """The share of starts that retries get while both wait; None: all of them."""
    match settings.policy:
        case Weighted(share):
            return share
        case Balanced():
            return BALANCED_SHARE
        case _:
            return None


def millionths(share: float) -> int:
    """The share as a whole number, so that sums of it are exact."""
    return round(share * ONE)


def clamp(carry: int) -> int:
    """Limit a carry to between 0 and just below one start."""
    return max(0, min(ONE - 1, carry))


def groups_of(
    queue: str, region: str, settings: QueueSettings, facts: Facts, only: Only | None
) -> tuple[Group, Group, Group]:
    """The urgent, retry and fresh lanes that a worker of `region` looks at.

    Of retries, those of `*` go before those of the region. Fresh and urgent work of the two is one
    tier, in order of time. Where its breaker is open the region takes one job at a time, at the
    pace of its probes, and no global retry. Its fresh lanes are then the last that healthy regions
    look at.
    """
    tripped = facts.is_open(queue, region)
    pause = facts.health_of(queue, region).breaker.pause if tripped else None
    down = () if tripped else facts.ailing(queue)
    regions = tuple([known.name for known in facts.regions])
    return laid_out(queue, settings, RegionContext(region, regions, pause, down), only)


class RegionContext(NamedTuple):
    """A worker's region, all regions, and those whose breaker is open (`down`).

    `pause` is the time between probes if the breaker of the worker's own region is open.
    """

    region: str
    regions: tuple[str, ...]
    pause: float | None
    down: tuple[str, ...]


# Cached: a new carry changes how much a claim takes, not from which lanes.
@lru_cache(maxsize=1000)
def laid_out(
    queue: str, settings: QueueSettings, context: RegionContext, only: Only | None
) -> tuple[Group, Group, Group]:
    """The groups of a queue for a worker in this context."""
    region, regions, pause, down = context
    retry_limits, fresh_limits = limits_in(queue, region, settings, pause)
    grace = settings.grace_seconds

    def own(priority: Priority, limits: tuple[Limit, ...]) -> tuple[Source, ...]:
        return tuple(
            Source(Lane(queue, scope, priority), 0.0, limits)
            for scope in (region, pinned_to(region))
        )

    def ailing(priority: Priority, limits: tuple[Limit, ...]) -> tuple[Source, ...]:
        if priority not in (Priority.NORMAL, Priority.URGENT):
            return ()
        # A sleeping worker of that region has the grace to make its probe first.
        return tuple(
            Source(Lane(queue, each, priority), grace, limits, yields=True) for each in down
        )

    def anywhere(priority: Priority, limits: tuple[Limit, ...]) -> tuple[Source, ...]:
        if priority in (Priority.NORMAL, Priority.URGENT):
            return (Source(Lane(queue, ANYWHERE, priority), 0.0, limits),)
        if pause is not None:
            return ()
        return tuple(
            Source(Lane(queue, scope, priority), waited, limits, yields)
            for scope, waited, yields in global_scopes(region, grace, regions)
        )

    def here(priority: Priority, limits: tuple[Limit, ...]) -> tuple[Source, ...]:
        return (*anywhere(priority, limits), *own(priority, limits))

    kinds: list[tuple[Priority, tuple[Limit, ...]]] = []
    kinds += [] if only == "retries" else [(Priority.URGENT, fresh_limits)]
    kinds += [] if only == "fresh" else [(Priority.URGENT_RETRY, retry_limits)]
    urgent = tuple(
        tuple(source for priority, limits in kinds for source in where(priority, limits))
        for where in (here, *((ailing,) if down else ()))
    )
    retry = (anywhere(Priority.RETRY, retry_limits), own(Priority.RETRY, retry_limits))
    fresh = (
        here(Priority.NORMAL, fresh_limits),
        *((ailing(Priority.NORMAL, fresh_limits),) if down else ()),
    )
    return (
        Group(queue, "urgent", urgent),
        Group(queue, "retry", () if only == "fresh" else retry),
        Group(queue, "fresh", () if only == "retries" else fresh),
    )


def global_scopes(
    region: str, grace: float, regions: tuple[str, ...]
) -> list[tuple[str, float, bool]]:
    """The scopes of global retries, each with how long a job in it must have been due.

    And whether it yields: a job meant for another region first need not wait when no worker of that
    region sleeps.
    """
    scopes = [(ANYWHERE, 0.0, False)]
    for known in regions:
        mine = known == region
        scopes.append((away_from(known), grace if mine else 0.0, False))
        scopes.append((towards(known), 0.0 if mine else grace, not mine))
    return scopes


def limits_in(
    queue: str, region: str, settings: QueueSettings, pause: float | None
) -> tuple[tuple[Limit, ...], tuple[Limit, ...]]:
    """The limits on retries and on fresh jobs for a region.

    `pause` is the time between probes if its breaker is open.
    """
    retry, fresh = limits_of(queue, settings)
    if pause is None:
        return retry, fresh
    probe = Cap(f"probe:{queue}:{region}", 1), Rate(f"pace:{queue}:{region}", 1, pause)
    return (*retry, *probe), (*fresh, *probe)


def limits_of(queue: str, settings: QueueSettings) -> tuple[tuple[Limit, ...], tuple[Limit, ...]]:
    """The limits on retries of the queue, and those on its fresh jobs."""
    retry: list[Limit] = []
    fresh: list[Limit] = []
    if isinstance(settings.policy, Capped):
        retry.append(Cap(f"cap:{queue}", settings.policy.limit))
    if settings.budget is not None:
        retry.append(settings.budget.retry_limit(queue))
        counter = settings.budget.fresh_limit(queue)
        fresh += [counter] if counter else []
    return tuple(retry), tuple(fresh)
