"""Schedules: a record each, and the ticks that are placed and withdrawn with it."""

from mulligan.core.reschedule import WITHDRAWN, Reschedule
from mulligan.core.settings import check_batch
from mulligan.stores.sqlite.enqueue import enqueue
from mulligan.stores.sqlite.operate import cancel_one, purge_one
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("schedules")
_RECORDS = SQL["records"]
_RECORD = SQL["record"]
_KEEP = SQL["keep"]
_FORGET = SQL["forget"]
_UNSTARTED = SQL["unstarted"]


def schedules(tx: Transaction) -> dict[str, bytes]:
    """The records by name."""
    return {name: record.encode() for name, record in tx.db.execute(_RECORDS)}


def reschedule(tx: Transaction, change: Reschedule) -> bool:
    """Replace the record if it is still the one before, with its ticks."""
    check_batch(len(change.place))
    row = tx.db.execute(_RECORD, (change.name,)).fetchone()
    stored = None if row is None else row[0].encode()
    if stored != change.before:
        return bool(stored == change.after)
    if change.after is None:
        tx.db.execute(_FORGET, (change.name,))
    else:
        tx.db.execute(_KEEP, (change.name, change.after.decode()))
    for job in change.withdraw:
        if tx.db.execute(_UNSTARTED, (job,)).fetchone() is not None:
            cancel_one(tx, job, WITHDRAWN)
            purge_one(tx, job)
    enqueue(tx, change.place)
    if change.edit:
        tx.change_facts()
    return True
