"""The state of a fleet, which its supervisor keeps in a note of the store."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, json, to_builtins

from mulligan.core.errors import UNREADABLE

PREFIX = "fleet/"


class Exit(Struct, frozen=True):
    """A process that ended: its slot, when (seconds since 1970), why, and its last lines."""

    slot: str
    pid: int
    at: float
    reason: str
    lines: tuple[str, ...] = ()


class SlotState(Struct, frozen=True):
    """A slot that has a process, or whose process died and will be restarted."""

    slot: str
    phase: str
    pid: int | None = None
    age: float = 0.0
    adopted: bool = False


class KindState(Struct, frozen=True):
    """A kind: how many processes it should have and why, how many it has, and what waits for them.

    `next_restart` is when the next dead process is restarted, in seconds since 1970.
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
    slots: tuple[SlotState, ...]
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
    """Every fleet in these notes, by `host/name`, as plain values; unreadable ones are left out."""
    found: dict[str, Any] = {}
    for key, value in sorted(notes.items()):
        try:
            state = json.decode(value, type=FleetState)
        except UNREADABLE:  # written by another release
            continue
        found[key.removeprefix(PREFIX)] = to_builtins(state)
    return found
