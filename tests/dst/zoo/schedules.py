"""Mistakes with schedules."""

from typing import Any

from msgspec.structs import replace

from mulligan.app import schedules as app_schedules
from mulligan.core.reschedule import Reschedule
from mulligan.core.ticks import put
from mulligan.stores.rules import schedules
from tests.dst.zoo.cage import plant

reschedule = schedules.reschedule


@plant(schedules, "cancel_tick")
async def tick_outlives_an_edit(tx: Any, row: Any) -> None:
    """An edit leaves the tick that was placed where it is."""


@plant(schedules, "reschedule")
async def record_kept_without_its_ticks(tx: Any, change: Reschedule) -> bool:
    """Every other change keeps the record, and forgets to place its ticks."""
    forgets = len(change.after or b"") % 2
    return await reschedule(tx, replace(change, place=()) if forgets else change)


@plant(schedules, "reschedule")
async def last_change_wins(tx: Any, change: Reschedule) -> bool:
    """A schedule is replaced whoever has changed it meanwhile."""
    return await reschedule(tx, replace(change, before=await tx.schedule(change.name)))


@plant(app_schedules, "put")
def edit_by_the_time_of_before(before: Any, new: Any, now: float) -> Reschedule:
    """An edit is decided by a time that was read hours ago."""
    return put(before, new, now - 4 * 3600.0)
