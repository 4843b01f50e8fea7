"""Workers and their leases."""

from collections.abc import Sequence

from msgspec.structs import replace

from mulligan.core.answers import Beat
from mulligan.core.job import Claim, Lease
from mulligan.core.worker import Worker
from mulligan.stores.sqlite import wakeup
from mulligan.stores.sqlite.fields import RECLAIMED_LIST, as_json
from mulligan.stores.sqlite.limits import Held, release
from mulligan.stores.sqlite.operate import facts
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("workers", reclaimed=RECLAIMED_LIST)
_JOIN = SQL["join"]
_LEAVE = SQL["leave"]
_LIVES = SQL["lives"]
_ADD_REGION = SQL["add_region"]
_HELD_BY = SQL["held_by"]
_NEXT_HOLDER = SQL["next_holder"]
_HELD_ROWS = SQL["held_rows"]
_RECLAIM = SQL["reclaim"]
ALL = -1


def beat(tx: Transaction, worker: Worker, holding: Sequence[Lease]) -> Beat:
    """Keep the worker's leases, and say which are lost and which it seems to have forgotten."""
    join(tx, worker)
    rows = tx.db.execute(_HELD_BY, (worker.id,))
    running = {Lease(job, token): held for job, token, *held in rows}
    shown = set(holding)
    unknown = {
        lease: reclaimed
        for lease, (leased_at, reclaimed) in running.items()
        if leased_at + worker.lease < tx.now and lease not in shown
    }
    return Beat(
        [lease for lease in holding if lease not in running],
        facts(tx),
        [lease for lease, reclaimed in unknown.items() if not reclaimed],
        reclaimed_by(tx, worker, {lease for lease, reclaimed in unknown.items() if reclaimed}),
    )


def reclaimed_by(tx: Transaction, worker: Worker, leases: set[Lease]) -> list[Claim]:
    """What the worker reclaimed under these leases."""
    if not leases:
        return []
    rows = tx.db.execute(_HELD_ROWS, (worker.id, ALL))
    claims = [Claim(*fields) for _, _, _, _, *fields in rows]
    held = [replace(claim, token=claim.token - 1) for claim in claims]
    return [claim for claim in held if claim.lease in leases]


def join(tx: Transaction, worker: Worker, *, anew: bool = False) -> int:
    """Note that the worker is alive; gives 1 if it is the first of its region ever, else 0."""
    row = (worker.id, worker.region, worker.lease, tx.now, tx.now, as_json(worker), anew)
    tx.db.execute(_JOIN, row)
    first = tx.db.execute(_ADD_REGION, (worker.region,)).rowcount
    if first:
        tx.change_facts()
    return first


def leave(tx: Transaction, worker: Worker) -> None:
    """Forget the worker; what it holds may be reclaimed."""
    tx.db.execute(_LEAVE, (worker.id,))
    wakeup.leave(tx, worker.id)


def lives(tx: Transaction, worker: str) -> bool:
    """Whether the worker has beaten within its lease."""
    return tx.db.execute(_LIVES, (worker, tx.now)).fetchone() is not None


def reclaim(tx: Transaction, limit: int, worker: Worker) -> list[Claim]:
    """Claim the jobs of workers that stopped beating, the longest running first."""
    if not lives(tx, worker.id):
        join(tx, worker, anew=True)
    wakeup.forget_dead(tx)
    rows = []
    holder = ""
    while found := tx.db.execute(_NEXT_HOLDER, (holder,)).fetchone():
        holder = found[0]
        if not lives(tx, holder):
            rows += tx.db.execute(_HELD_ROWS, (holder, limit)).fetchall()
    rows = sorted(rows, key=lambda row: row[:3])[:limit]
    if rows:
        numbers = as_json([number for _, _, number, *_ in rows])
        tx.db.execute(_RECLAIM, (worker.id, tx.now, numbers))
        release(tx, [Held(job, limits, tx.now) for _, _, _, limits, job, *_ in rows])
    return [Claim(*fields) for _, _, _, _, *fields in rows]
