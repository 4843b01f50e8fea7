"""Fan-in: results arrive at the job that awaits them, or never will."""

from collections.abc import Sequence
from typing import NamedTuple

from mulligan.core.job import never_arrives
from mulligan.core.lane import Lane
from mulligan.stores.sqlite._sql import load
from mulligan.stores.sqlite._standing import cancel, stop_holding
from mulligan.stores.sqlite._transaction import Transaction

_AWAITS = load("gather_awaits")
_KEEP = load("arrival_add")
_COUNT_DOWN = load("gather_count_down")
_STAND = load("gather_stand")
_AWAITING = load("gather_awaiting")


class Arrival(NamedTuple):
    """A result on its way to the job `gather`, which joins its lane by `sequence` if it is last."""

    gather: str
    place: int
    result: bytes | None
    sequence: int


def arrive(tx: Transaction, arrivals: Sequence[Arrival]) -> None:
    """Keep each result that is still awaited; the last one lets the job join its lane."""
    awaited: dict[str, int] = {}
    for gather, place, result, sequence in arrivals:
        if gather not in awaited:
            row = tx.db.execute(_AWAITS, (gather,)).fetchone()
            awaited[gather] = 0 if row is None else row[0]
        if awaited[gather] and tx.db.execute(_KEEP, (gather, place, result)).rowcount:
            awaited[gather] -= 1
            if not awaited[gather]:
                stands = tx.db.execute(_STAND, (tx.now, sequence, gather)).fetchone()
                stop_holding(tx, stands[0])
                tx.join(Lane(*stands[1:]), tx.now)
    still = [(number, gather) for gather, number in awaited.items() if number]
    tx.db.executemany(_COUNT_DOWN, still)


def miss(tx: Transaction, job: str, gather: str | None, how: str) -> None:
    """Cancel the job that awaits one which will never arrive, and so on upwards.

    What awaits others holds no permit, and has no room to leave to those that its key holds.
    """
    while gather is not None:
        row = tx.db.execute(_AWAITING, (gather,)).fetchone()
        if row is None:
            return
        place, above = row
        cancel(tx, place, never_arrives(job, how), outdated=True)
        job, how, gather = gather, "cancelled", above
