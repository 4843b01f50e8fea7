"""Fairness keys as a reader sees them: who waits, and the share of turns that each has."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from mulligan.core.limits import KeyView

if TYPE_CHECKING:
    from mulligan.core.lane import Lane


class KeyShare(Struct, frozen=True):
    """A fairness key with work waiting in a lane, by the lane's label and its region.

    `share` is its part of the starts of the lane while all of these keys have work and room;
    `turns` is how many turns of weight 1 come before its next one.
    """

    key: str
    lane: str
    region: str
    waiting: int
    weight: float
    share: float
    turns: float = 0.0


def shares(keys: Iterable[KeyView], weights: Mapping[str, float]) -> list[KeyShare]:
    """The keys with their weights and shares, in the order given."""
    views = list(keys)
    total: dict[Lane, float] = defaultdict(float)
    for view in views:
        total[view.lane] += weights.get(view.key, 1.0)
    return [
        KeyShare(
            view.key,
            view.lane.label,
            view.lane.scope,
            view.waiting,
            weights.get(view.key, 1.0),
            round(weights.get(view.key, 1.0) / total[view.lane], 6),
            view.turns,
        )
        for view in views
    ]
