"""A periodic task, and which of its ticks to enqueue."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.job import NewJob

if TYPE_CHECKING:
    from mulligan.core.schedule import Schedule

PREFIX = "tick/"


class Periodic(NamedTuple):
    """A task with a schedule; `make` makes the job of a tick from its id and delay."""

    task: str
    schedule: "Schedule"
    make: Callable[[str, float], NewJob]

    @property
    def note(self) -> str:
        """The key of the note with the last tick that was enqueued."""
        return f"{PREFIX}{self.task}/{self.schedule.words}"

    def due(self, placed: float | None, now: float) -> list[float]:
        """The ticks to enqueue now: the latest that was missed, and the next.

        `placed`, the last that was enqueued, is usually the next tick, or the one after it if the
        clock was set back a little. If it is later, the clock was far ahead when it was enqueued:
        it stays, and the ticks before it are enqueued as well.
        """
        ahead = self.schedule.after(now)
        if placed is None or placed > self.schedule.after(ahead):
            return [ahead]
        missed = self.schedule.last(now)
        return [tick for tick in (missed, ahead) if tick > placed]
