"""Fan-in: results arrive at the job that awaits them, or never will."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mulligan.core.job import never_arrives
from mulligan.core.lane import Lane
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction, cancel_stored, stop_holding

SQL = load("gather")
_AWAITS = SQL["awaits"]
_ARRIVE = SQL["arrive"]
_COUNT_DOWN = SQL["count_down"]
_MAKE_DUE = SQL["make_due"]
_AWAITING = SQL["awaiting"]


class Arrival(NamedTuple):
    """A result on its way to the job `gather`, which joins its lane by `sequence` if it is last."""

    gather: str
    gather_index: int
    result: bytes | None
    sequence: int


def arrive(tx: Transaction, arrivals: Sequence[Arrival]) -> None:
    """Keep each result that is still awaited; the last one lets the job join its lane."""
    awaited: dict[str, int] = {}
    for gather, index, result, sequence in arrivals:
        if gather not in awaited:
            row = tx.db.execute(_AWAITS, (gather,)).fetchone()
            awaited[gather] = 0 if row is None else row[0]
        if awaited[gather] and tx.db.execute(_ARRIVE, (gather, index, result)).rowcount:
            awaited[gather] -= 1
            if not awaited[gather]:
                number, *lane = tx.db.execute(_MAKE_DUE, (tx.now, sequence, gather)).fetchone()
                stop_holding(tx, number)
                tx.join(Lane(*lane), tx.now)
    still = [(count, gather) for gather, count in awaited.items() if count]
    tx.db.executemany(_COUNT_DOWN, still)


def keep_arrived(tx: Transaction, job: str, arrived: Iterable[tuple[int, bytes | None]]) -> None:
    """Keep results that had arrived at the job in another store, by index."""
    tx.db.executemany(_ARRIVE, [(job, index, result) for index, result in arrived])


def miss(tx: Transaction, job: str, gather: str | None, how: str) -> None:
    """Cancel the job that awaits one which will never arrive, and so on upwards.

    What awaits others holds no permit, and has no room to leave to those that its key holds.
    """
    while gather is not None:
        row = tx.db.execute(_AWAITING, (gather,)).fetchone()
        if row is None:
            return
        number, above = row
        cancel_stored(tx, number, never_arrives(job, how), outdated=True)
        job, how, gather = gather, "cancelled", above
