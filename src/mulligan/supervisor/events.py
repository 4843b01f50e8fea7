"""What a supervisor reports: events, each one line of a log."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

Happening = Literal[
    "supervising", "adopted", "started", "ready", "scaled", "draining", "replacing", "ended",
    "died", "killed", "line", "store away", "store back", "reloaded", "refused", "stopping",
    "stopped",
]  # fmt: skip
SERIOUS: frozenset[Happening] = frozenset({"died", "killed", "store away", "refused"})


class Event(Struct, frozen=True, omit_defaults=True):
    """Something that happened, to a slot if one is named; `lines` are its process's last output."""

    event: Happening
    text: str
    at: float
    slot: str = ""
    pid: int = 0
    lines: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The event as a line of a log."""
        who = f"{self.slot} " if self.slot else ""
        if self.event == "line":
            return f"{who}| {self.text}"
        who += f"(pid {self.pid}) " if self.pid else ""
        return f"{who}{self.event}: {self.text}" if self.text else f"{who}{self.event}"


Tell = Callable[[Event], None]
