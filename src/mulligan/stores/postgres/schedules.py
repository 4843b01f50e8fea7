"""Schedules: a record each, and the ticks that are placed and withdrawn with it."""

from mulligan.core.reschedule import Reschedule
from mulligan.stores.postgres.arrays import texts
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.fields import NO_JOBS, job_columns


async def reschedule(database: Database, change: Reschedule) -> bool:
    """Replace the record if it is still the one before, with its ticks."""
    [[done]] = await database.call_counting(
        "reschedule",
        in_name=change.name,
        before=None if change.before is None else change.before.decode(),
        after=None if change.after is None else change.after.decode(),
        withdraw=texts(change.withdraw),
        edit=change.edit,
        jobs=job_columns(change.place) if change.place else NO_JOBS,
    )
    return bool(done)


async def schedules(database: Database) -> dict[str, bytes]:
    """The records by name."""
    return {name: record.encode() for name, record in await database.call("schedules")}
