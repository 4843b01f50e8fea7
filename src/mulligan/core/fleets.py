"""The state of a fleet, as its supervisor tells it through the store's notes."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, json, to_builtins

from mulligan.core.errors import UNREADABLE

PREFIX = "fleet/"


class Exit(Struct, frozen=True):
    """A process that ended: which, when (seconds since 1970), how, and what it said last."""

    slot: str
    pid: int
    at: float
    reason: str
    lines: tuple[str, ...] = ()


class Place(Struct, frozen=True):
    """A slot with a process, or one whose process died and is to be started again."""

    slot: str
    phase: str
    pid: int | None = None
    age: float = 0.0
    adopted: bool = False


class KindState(Struct, frozen=True):
    """A kind: how many are wanted and why, how many there are, what waits for them.

    `next_restart` is when the next process that died is started again, in seconds since 1970.
    """

    wanted: int
    why: str
    running: int
    starting: int
    draining: int
    resting: int
    ready: int | None
    oldest_wait: float | None
    next_restart: float | None
    places: tuple[Place, ...]
    exits: tuple[Exit, ...]


class FleetState(Struct, frozen=True):
    """A fleet at one instant. `away` are stores that do not answer, each with the reason."""

    name: str
    host: str
    pid: int
    at: float
    since: float
    phase: str
    kinds: dict[str, KindState]
    away: dict[str, str] = {}


def note_key(host: str, name: str) -> str:
    """The key under which a supervisor keeps the state of its fleet."""
    return f"{PREFIX}{host}/{name}"


def fleets(notes: Mapping[str, bytes]) -> dict[str, Any]:
    """Every fleet that a note tells of, by `host/name`, as plain values; others are left out."""
    found: dict[str, Any] = {}
    for key, value in sorted(notes.items()):
        try:
            state = json.decode(value, type=FleetState)
        except UNREADABLE:  # a note of a release that says it otherwise
            continue
        found[key.removeprefix(PREFIX)] = to_builtins(state)
    return found
