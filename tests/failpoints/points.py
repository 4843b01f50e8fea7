"""The steps of a process by name, and the one at which it dies or misses an answer.

A step is named by how the code came there, outermost first, as `commit > follow > deliver > insert
tasks`. The names come from the code as it runs: a new step in a store is a new point.
"""

import os
import signal
import sys
from types import FrameType

from mulligan.stores.contract import CommitsInTransaction, Store

OPERATIONS = frozenset(
    name
    for protocol in (*Store.__mro__, CommitsInTransaction)
    for name in vars(protocol)
    if not name.startswith("_")
)
# Functions that every operation of a store passes through and that say nothing about it.
PASSED_THROUGH = {
    "<lambda>", "__init__", "call", "attempt", "run", "ask",
    "_call", "_run", "_send", "_each", "_answer", "_exchange", "exchange",
}  # fmt: skip


class Points:
    """What this process does at its steps: note them, and die or miss an answer at one."""

    def __init__(self) -> None:
        self.seen: dict[str, None] = {}
        self.deadly: str | None = None
        self.missed: Exception | None = None
        self.armed = False

    def arm(self, deadly: str | None = None, missed: Exception | None = None) -> None:
        """Take notice from now on; die at the point of this name, or raise `missed` there once."""
        self.deadly, self.missed, self.armed = deadly, missed, True

    def here(self, step: str) -> None:
        """The process has come to this step."""
        if not self.armed:
            return
        name = name_of(step, sys._getframe(1))
        self.seen.setdefault(name)
        if name == self.deadly and self.missed is not None:
            self.deadly = None
            raise self.missed
        if name == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)


POINTS = Points()


def name_of(step: str, frame: FrameType | None) -> str:
    """The step with the functions of stores that led to it, from the contract's operation on."""
    functions: list[str] = []
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("mulligan.stores."):
            functions.append(frame.f_code.co_name)
        frame = frame.f_back
    functions.reverse()
    begin = next((at for at, name in enumerate(functions) if name in OPERATIONS), 0)
    path = [name for name in functions[begin:] if name not in PASSED_THROUGH]
    return " > ".join([*dict.fromkeys(path), step])


def within(point: str) -> str:
    """The operation that a point is within; the step itself where it is in none."""
    return point.partition(" > ")[0].partition(":")[0]
