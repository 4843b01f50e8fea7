"""A periodic task: which of its ticks are to be placed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.job import NewJob

if TYPE_CHECKING:
    from mulligan.core.schedule import Schedule

PREFIX = "tick/"


class Periodic(NamedTuple):
    """A task that runs by a schedule; `make` gives the job of a tick, by its id and delay."""

    task: str
    schedule: "Schedule"
    make: Callable[[str, float], NewJob]

    @property
    def note(self) -> str:
        """The key under which the last tick that was placed is noted."""
        return f"{PREFIX}{self.task}/{self.schedule.words}"

    def due(self, placed: float | None, now: float) -> list[float]:
        """The ticks to place now: the latest that was missed, and the next.

        The last that was placed is the next, or the one after it if the clock was put back by a
        moment. If it is later, it was placed while the clock was far ahead: it stands, and the
        ticks until then are placed as if it were not there.
        """
        ahead = self.schedule.after(now)
        if placed is None or placed > self.schedule.after(ahead):
            return [ahead]
        missed = self.schedule.last(now)
        return [tick for tick in (missed, ahead) if tick > placed]
