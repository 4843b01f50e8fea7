"""Mistakes with schedules."""

from typing import Any

from msgspec.structs import replace

from mulligan.app import schedules as app_schedules
from mulligan.core.reschedule import Reschedule
from mulligan.core.ticks import put
from mulligan.stores.memory import schedules
from mulligan.stores.memory.state import State
from tests.dst.zoo.cage import plant

reschedule = schedules.reschedule


@plant(schedules, "withdraw")
def tick_outlives_an_edit(state: State, job: str) -> None:
    """An edit leaves the tick that was placed where it is."""


@plant(schedules, "reschedule")
def record_kept_without_its_ticks(state: State, change: Reschedule) -> bool:
    """Every other change keeps the record, and forgets to place its ticks."""
    forgets = len(change.after or b"") % 2
    return reschedule(state, replace(change, place=()) if forgets else change)


@plant(schedules, "reschedule")
def last_change_wins(state: State, change: Reschedule) -> bool:
    """A schedule is replaced whoever has changed it meanwhile."""
    return reschedule(state, replace(change, before=state.schedules.get(change.name)))


@plant(app_schedules, "put")
def edit_by_the_time_of_before(before: Any, new: Any, now: float) -> Reschedule:
    """An edit is decided by a time that was read hours ago."""
    return put(before, new, now - 4 * 3600.0)
