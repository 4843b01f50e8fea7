"""Adopt: jobs of another store are taken over as they stand."""

from collections.abc import Sequence
from typing import Any

from mulligan.core.durations import rounded
from mulligan.core.job import Adopted, Job, adopted_token
from mulligan.core.settings import check_batch
from mulligan.stores.sqlite._commit import attempt_row
from mulligan.stores.sqlite._sql import load
from mulligan.stores.sqlite._standing import join_lanes
from mulligan.stores.sqlite._transaction import Transaction

_ADOPT = load("adopt")
_FAILED = load("adopt_failed")
_AWAIT = load("held_begin")
_REMEMBER = load("attempt_add")
_ARRIVE = load("arrival_add")


def adopt(tx: Transaction, jobs: Sequence[Adopted]) -> list[bool]:
    """Store each job unless its id or unique key is taken; a running one is pending here."""
    check_batch(len(jobs))
    first = tx.reserve(len(jobs))
    return [adopt_one(tx, each, first + i) for i, each in enumerate(jobs)]


def adopt_one(tx: Transaction, adopted: Adopted, place: int) -> bool:
    """Store the job with its history and what has arrived at it."""
    job, history, arrived = adopted
    if not tx.db.execute(_ADOPT, row_of(job, place, tx.now)).rowcount:
        return False
    tx.db.executemany(_REMEMBER, [attempt_row(job.id, each, each.ended_at) for each in history])
    tx.db.executemany(_ARRIVE, [(job.id, at, result) for at, result in arrived.items()])
    if job.status == "failed":
        tx.db.execute(_FAILED, (job.ended_at, place))
    elif job.awaits:
        tx.db.execute(_AWAIT, (place, place))
    else:
        join_lanes(tx, [place])
        tx.join(job.lane, rounded(job.due))
    return True


def row_of(job: Job, place: int, now: float) -> tuple[Any, ...]:
    """The job as its table keeps it; only one that stands in a lane has a sequence."""
    failed = job.status == "failed"
    stands = not failed and not job.awaits
    due = rounded(job.due) if stands else job.due
    return (
        place,
        job.id,
        job.queue,
        job.task,
        job.region,
        job.priority,
        job.scope,
        job.lane_priority,
        due,
        place if stands else 0,
        stands and due > now,
        adopted_token(place, job.token),
        job.retry_count,
        job.replay,
        job.snoozes,
        job.trail,
        job.created_at,
        job.started_at,
        job.last_retry_at,
        job.expires_at,
        job.unique_key,
        job.unique_in,
        None if failed or job.unique_key is None else job.key_queue,
        job.concurrency_key,
        job.concurrency_limit,
        job.awaits,
        job.gather,
        job.gather_index,
        job.body,
    )
