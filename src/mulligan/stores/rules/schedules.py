"""Changes schedules: a record, and the ticks that are placed and withdrawn with it."""

from mulligan.core.reschedule import WITHDRAWN, Reschedule
from mulligan.core.settings import check_batch
from mulligan.stores.rules.end import cancel_one
from mulligan.stores.rules.enqueue import enqueue
from mulligan.stores.rules.operate import purge_one
from mulligan.stores.rules.row import Row
from mulligan.stores.rules.tx import Tx


async def reschedule(tx: Tx, change: Reschedule) -> bool:
    """Replace the record and its ticks, if the record is still the one before."""
    check_batch(len(change.place))
    stored = await tx.schedule(change.name)
    if stored != change.before:
        return stored == change.after
    tx.put_schedule(change.name, change.after)
    for row in await tx.jobs(change.withdraw):
        await cancel_tick(tx, row)
    await enqueue(tx, change.place)
    if change.edit:
        tx.change_facts()
    return True


async def cancel_tick(tx: Tx, row: Row | None) -> None:
    """Delete the tick, if no attempt of it has started."""
    if row is not None and row.status == "pending" and not row.has_started:
        await cancel_one(tx, row, WITHDRAWN)
        await purge_one(tx, row)
