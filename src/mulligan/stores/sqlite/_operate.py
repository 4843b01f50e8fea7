"""What operators do with jobs, and the housekeeping that every worker does."""

from collections.abc import Sequence
from typing import Any

from mulligan.core.durations import rounded
from mulligan.core.job import ENDED, EXPIRED, Attempt, Job
from mulligan.core.lane import Lane
from mulligan.core.settings import check_batch
from mulligan.stores.sqlite._commit import attempt_row
from mulligan.stores.sqlite._keys import release
from mulligan.stores.sqlite._read import ended_groups
from mulligan.stores.sqlite._sql import as_json, load
from mulligan.stores.sqlite._transaction import Transaction

_ROWS = load("state_rows")
_HOLDER = load("unique_holder")
_REPLAY = load("replay")
_CANCEL = load("cancel")
_ADOPT = load("adopt")
_REMEMBER = load("attempt_add")
_FORGET = load("attempt_delete")
_DELETE = load("delete")
_PROMOTE = load("promote")
_PRUNE = load("prune")


def found(tx: Transaction, jobs: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The state of the jobs that are stored, by id."""
    check_batch(len(jobs))
    return {row[0]: row for row in tx.db.execute(_ROWS, (as_json(jobs),))}


def replay(tx: Transaction, jobs: Sequence[str]) -> list[bool]:
    """Make failed jobs pending again, unless another job has their unique key now."""
    rows = found(tx, jobs)
    first = tx.reserve(len(jobs))
    return [replay_one(tx, rows.pop(job, None), first + i) for i, job in enumerate(jobs)]


def replay_one(tx: Transaction, row: tuple[Any, ...] | None, sequence: int) -> bool:
    """Let the job join its first lane again, if it failed."""
    if row is None:
        return False
    _, place, status, queue, region, priority, unique_key, _ = row
    if status != "failed":
        return False
    if unique_key is not None and tx.db.execute(_HOLDER, (queue, unique_key)).fetchone():
        return False
    tx.db.execute(_REPLAY, (tx.now, sequence, place))
    tx.join(Lane(queue, region, priority), tx.now)
    return True


def cancel(tx: Transaction, jobs: Sequence[str], reason: str) -> list[bool]:
    """End jobs that have not ended; the lease of a running one becomes stale."""
    rows = found(tx, jobs)
    answers = []
    for job in jobs:
        row = rows.pop(job, None)
        live = row is not None and row[2] not in ENDED
        if row is not None and live:
            tx.db.execute(_CANCEL, (tx.now, reason, row[1]))
            release(tx, [(job, row[7])])
        answers.append(live)
    return answers


def purge(tx: Transaction, jobs: Sequence[str]) -> list[bool]:
    """Delete jobs that have ended, with their history."""
    rows = found(tx, jobs)
    places = {job: row[1] for job, row in rows.items() if row[2] in ENDED}
    tx.db.execute(_DELETE, (as_json(list(places.values())),))
    tx.db.execute(_FORGET, (as_json(list(places)),))
    return [places.pop(job, None) is not None for job in jobs]


def adopt(tx: Transaction, jobs: Sequence[tuple[Job, Sequence[Attempt]]]) -> list[bool]:
    """Take over jobs of another store as they stand; a running one is pending here."""
    check_batch(len(jobs))
    first = tx.reserve(len(jobs))
    return [adopt_one(tx, job, history, first + i) for i, (job, history) in enumerate(jobs)]


def adopt_one(tx: Transaction, job: Job, history: Sequence[Attempt], place: int) -> bool:
    """Store the job with its history, unless its id or unique key is taken."""
    failed = job.status == "failed"
    due = job.due if failed else rounded(job.due)
    row = (
        place,
        job.id,
        job.queue,
        job.task,
        job.region,
        job.priority,
        "failed" if failed else "pending",
        job.scope,
        job.lane_priority,
        due,
        0 if failed else place,
        not failed and due > tx.now,
        job.token,
        job.retry_count,
        job.replay,
        job.snoozes,
        job.created_at,
        job.started_at,
        job.last_retry_at,
        job.ended_at if failed else None,
        job.expires_at,
        job.unique_key,
        job.concurrency_key,
        job.concurrency_limit,
        job.body,
    )
    if not tx.db.execute(_ADOPT, row).rowcount:
        return False
    tx.db.executemany(_REMEMBER, [attempt_row(job.id, each, each.ended_at) for each in history])
    if not failed:
        tx.join(job.lane, due)
    return True


def promote(tx: Transaction, limit: int) -> int:
    """End jobs that expired before they could start; lanes need no other care."""
    rows = tx.db.execute(_PROMOTE, (tx.now, limit)).fetchall()
    for job, place, key in rows:
        tx.db.execute(_CANCEL, (tx.now, EXPIRED, place))
        release(tx, [(job, key)])
    return len(rows)


def prune(tx: Transaction, keep_done: float, limit: int) -> int:
    """Delete done and cancelled jobs that ended long enough ago, the oldest of each queue first."""
    before = tx.now - keep_done
    gone: list[str] = []
    for queue, status in ended_groups(tx):
        if status != "failed" and len(gone) < limit:
            rows = tx.db.execute(_PRUNE, (queue, status, before, limit - len(gone)))
            gone += [job for (job,) in rows]
    if gone:
        tx.db.execute(_FORGET, (as_json(gone),))
    return len(gone)
