"""What operators do with jobs, and the housekeeping that every worker does."""

from collections.abc import Sequence
from typing import NamedTuple

from mulligan.core.health import CLOSED, first_slot
from mulligan.core.job import ENDED, EXPIRED, Status
from mulligan.core.lane import Lane
from mulligan.core.settings import check_batch
from mulligan.stores.sqlite import _standing as standing
from mulligan.stores.sqlite._gathering import miss
from mulligan.stores.sqlite._keys import release
from mulligan.stores.sqlite._read import ended_groups
from mulligan.stores.sqlite._sql import as_json, load
from mulligan.stores.sqlite._standing import join_lanes
from mulligan.stores.sqlite._transaction import Transaction

_STATE = load("state")
_HOLDER = load("unique_holder")
_REPLAY = load("replay")
_LEAVE_ENDED = load("ended_leave")
_DELETE = load("delete")
_FORGET_ATTEMPTS = load("attempt_delete")
_FORGET_ARRIVALS = load("arrival_delete")
_EXPIRED = load("promote")
_PRUNE = load("prune")
_PRUNE_NOTES = load("note_prune")
_PRUNE_RECENT = load("recent_prune")
_PRUNE_WORKERS = load("worker_prune")

# Long enough for an operator to see which workers were killed.
KEEP_DEAD_WORKERS = 86_400.0


class State(NamedTuple):
    """What is asked of a job before something is done with it."""

    place: int
    status: Status
    queue: str
    region: str
    priority: int
    key_queue: str
    unique_key: str | None
    concurrency_key: str | None
    gather: str | None
    awaits: int


def state_of(tx: Transaction, job: str) -> State | None:
    """The state of the job, as what was done before in the transaction left it."""
    row = tx.db.execute(_STATE, (job,)).fetchone()
    return None if row is None else State(*row)


def replay(tx: Transaction, jobs: Sequence[str]) -> list[bool]:
    """Make failed jobs pending again, unless another job has their unique key now."""
    check_batch(len(jobs))
    first = tx.reserve(len(jobs))
    return [replay_one(tx, job, first + i) for i, job in enumerate(jobs)]


def replay_one(tx: Transaction, job: str, sequence: int) -> bool:
    """Let the job join its first lane again, if it failed."""
    state = state_of(tx, job)
    if state is None or state.status != "failed":
        return False
    key = (state.key_queue, state.unique_key)
    if state.unique_key is not None and tx.db.execute(_HOLDER, key).fetchone():
        return False
    tx.db.execute(_LEAVE_ENDED, (state.place,))
    tx.db.execute(_REPLAY, (tx.now, sequence, state.place))
    join_lanes(tx, [state.place])
    tx.join(Lane(state.queue, state.region, state.priority), tx.now)
    return True


def cancel(tx: Transaction, jobs: Sequence[str], reason: str) -> list[bool]:
    """End jobs that have not ended; the lease of a running one becomes stale."""
    check_batch(len(jobs))
    return [cancel_one(tx, job, reason) for job in jobs]


def cancel_one(tx: Transaction, job: str, reason: str) -> bool:
    """End the job and those that await it, and let go of what it held."""
    state = state_of(tx, job)
    if state is None or state.status in ENDED:
        return False
    standing.cancel(tx, state.place, reason, outdated=True)
    miss(tx, job, state.gather, "cancelled")
    if not state.awaits:
        release(tx, [(job, state.concurrency_key)])
    return True


def purge(tx: Transaction, jobs: Sequence[str]) -> list[bool]:
    """Delete jobs that have ended, with their history."""
    check_batch(len(jobs))
    return [purge_one(tx, job) for job in jobs]


def purge_one(tx: Transaction, job: str) -> bool:
    """Delete the job; one that failed can no longer be replayed, and so will never arrive."""
    state = state_of(tx, job)
    if state is None or state.status not in ENDED:
        return False
    tx.db.execute(_LEAVE_ENDED, (state.place,))
    delete(tx, [state.place])
    if state.status == "failed":
        miss(tx, job, state.gather, "purged")
    return True


def delete(tx: Transaction, places: Sequence[int]) -> None:
    """Delete the jobs, and what was kept beside them."""
    if places:
        jobs = as_json([job for (job,) in tx.db.execute(_DELETE, (as_json(places),))])
        tx.db.execute(_FORGET_ATTEMPTS, (jobs,))
        tx.db.execute(_FORGET_ARRIVALS, (jobs,))


def promote(tx: Transaction, limit: int) -> int:
    """End jobs that expired before they could start; lanes need no other care."""
    ended = 0
    while ended < limit and (firsts := tx.db.execute(_EXPIRED, (tx.now, tx.now)).fetchall()):
        cancel_one(tx, min(firsts)[2], EXPIRED)
        ended += 1
    return ended


def prune(tx: Transaction, keep_done: float, limit: int) -> int:
    """Delete done and cancelled jobs that ended long enough ago, the oldest of each queue first.

    And notes that are past their time, counts that are no longer recent, workers long dead.
    """
    before = tx.now - keep_done
    gone: list[int] = []
    for queue, status in ended_groups(tx):
        if status != "failed" and len(gone) < limit:
            rows = tx.db.execute(_PRUNE, (queue, status, before, limit - len(gone)))
            gone += [place for (place,) in rows]
    delete(tx, gone)
    tx.db.execute(_PRUNE_NOTES, (tx.now,))
    tx.db.execute(_PRUNE_RECENT, (first_slot(tx.now, CLOSED),))
    tx.db.execute(_PRUNE_WORKERS, (tx.now - KEEP_DEAD_WORKERS,))
    return len(gone)
