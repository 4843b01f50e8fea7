"""Mistakes with the turns of fairness keys."""

from typing import Any

from mulligan.core import lines
from mulligan.core.lane import Lane
from mulligan.core.lines import Key
from mulligan.stores.memory import claim
from mulligan.stores.memory.claim import ClaimLanes
from mulligan.stores.memory.lines import Lines
from tests.dst.zoo.cage import Change, plant

present_turn = Lines.present_turn
put_key = Lines.put_key
take_turn = lines.take_turn


@plant(ClaimLanes, "weight")
def weight_ignored(self: Any, lane: Lane, key: str) -> float:
    """Every key has as many turns as the others."""
    return 1.0


@plant(Lines, "first_key")
def a_key_starved(self: Any, lane: Lane) -> Key | None:
    """The key whose name is first goes before all others, as long as it has jobs."""
    ready = [key for key in self.lanes[lane].keys.values() if key.ready is not None]
    return min(ready, key=lambda key: key.name, default=None)


@plant(lines, "take_turn", Change(claim, "take_turn", lambda *_: None))
def turns_never_pass(*_: Any) -> None:
    """A start costs its key nothing: whoever came first goes on until it has no job left."""


@plant(Lines, "present_turn")
def idle_key_saves_turns_up(self: Any, lane: Lane) -> int:
    """A key that had no work comes back with all the turns that it has not used."""
    return 0
