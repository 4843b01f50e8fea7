"""Which workers of a queue may take from a lane, and how long its jobs must have been due by then.

The inverse of the groups that `fairness` lays out: it starts from a lane that holds jobs. A store
may know many queues and regions, nearly all without jobs, so nothing here lists all their lanes.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from mulligan.core.facts import Facts
from mulligan.core.fetch import Only
from mulligan.core.lane import ANYWHERE, Lane, away_from, plain_region

MARK = len(away_from(""))


class Taker(NamedTuple):
    """Workers of one region that take the same; `probes` while the region's breaker is open."""

    region: str
    only: Only | None = None
    probes: bool = False


class LaneRules(NamedTuple):
    """What decides about the lanes of one queue; `down` are the regions whose breaker is open."""

    grace: float
    regions: Collection[str]
    down: Collection[str]


class Takers:
    """The takers of one queue."""

    def __init__(self, takers: Iterable[Taker], rules: LaneRules) -> None:
        self._rules = rules
        self._by_region: dict[str, list[Taker]] = {}
        # Takers of two regions for each kind: one of them is not the region that a lane names.
        self._others: dict[tuple[Only | None, bool], list[Taker]] = {}
        for taker in takers:
            self._by_region.setdefault(taker.region, []).append(taker)
            others = self._others.setdefault((taker.only, taker.probes), [])
            if len(others) < 2 and taker not in others:  # noqa: PLR2004 - see above
                others.append(taker)

    def first(self, lane: Lane) -> tuple[float, Taker] | None:
        """The taker that may take first from the lane, and when; None if no taker may.

        Of several one that does not only probe.
        """
        able = [
            (waited, taker.probes, taker)
            for taker in self._near(lane)
            if (waited := waits(lane, taker, self._rules)) is not None
        ]
        if not able:
            return None
        waited, _, taker = min(able, key=lambda each: each[:2])
        return waited, taker

    def _near(self, lane: Lane) -> Iterable[Taker]:
        yield from self._by_region.get(named_region(lane), ())
        for others in self._others.values():
            yield from others


def waits(lane: Lane, taker: Taker, rules: LaneRules) -> float | None:
    """How long a job of the lane must be due before the taker may take it; None if it may not."""
    if taker.only == ("fresh" if lane.is_retry else "retries"):
        return None
    if plain_region(lane.scope) == taker.region or (lane.scope == ANYWHERE and not lane.is_retry):
        return 0.0
    if taker.probes:
        return None
    if lane.is_retry:
        return waits_for_retries(lane, taker.region, rules)
    return rules.grace if lane.scope in rules.down else None


def waits_for_retries(lane: Lane, region: str, rules: LaneRules) -> float | None:
    """The same for retries of other regions, and for those that any region may take."""
    if lane.scope == ANYWHERE:
        return 0.0
    named = named_region(lane)
    if not lane.is_global or named not in rules.regions:
        return None
    left_to_others = lane.scope == away_from(named)
    return rules.grace if left_to_others == (named == region) else 0.0


def named_region(lane: Lane) -> str:
    """The region that the lane's scope names; empty if it names none."""
    return lane.scope[MARK:] if lane.is_global else plain_region(lane.scope)


def rules_of(queue: str, facts: Facts) -> LaneRules:
    """The rules of a queue's lanes."""
    return LaneRules(facts.queue(queue).grace_seconds, facts.known_regions, facts.ailing(queue))


def takers_of(queue: str, kinds: Sequence[tuple[str, Only | None]], facts: Facts) -> Takers:
    """The takers of a queue among workers of these regions, each for all or one kind of jobs."""
    takers = [Taker(region, only, facts.is_open(queue, region)) for region, only in kinds]
    return Takers(takers, rules_of(queue, facts))
