"""Enqueue: every job or none, each answered with its id or that of the job before it."""

from collections.abc import Iterable, Sequence
from typing import Any

from mulligan.core.job import Enqueued, NewJob, first_token
from mulligan.core.settings import check_batch
from mulligan.stores.sqlite._sql import load
from mulligan.stores.sqlite._transaction import Transaction

_INSERT = load("enqueue")
_INSERT_PLAIN = load("enqueue_plain")
_JOIN_LANES = load("lane_begin")
_HOLD = load("held_begin")
_CREATED = load("created")
_IS_STORED = load("is_stored")
_HOLDER = load("unique_holder")

NO_OPTIONS = (None, None, None, None, 1, 0, None, 0)


def enqueue(tx: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Add the jobs, unless they are there already."""
    check_batch(len(jobs))
    if not jobs:
        return []
    first = tx.reserve(len(jobs))
    return add(tx, jobs, range(first, first + len(jobs)))


def add(tx: Transaction, jobs: Sequence[NewJob], places: Sequence[int]) -> list[Enqueued]:
    """Add the jobs under these sequence numbers, which grow."""
    now = tx.now
    dues = [now if job.awaits else tx.due(job.delay) for job in jobs]
    rows: Iterable[tuple[Any, ...]] = [
        (
            place,
            job.id,
            job.queue,
            job.task,
            job.region,
            job.priority,
            due,
            now,
            first_token(place),
            job.body,
        )
        for place, job, due in zip(places, jobs, dues, strict=True)
    ]
    insert = _INSERT_PLAIN
    extras = [options(job, now) for job in jobs]
    if any(extra != NO_OPTIONS for extra in extras):
        insert = _INSERT
        rows = [row + extra for row, extra in zip(rows, extras, strict=True)]
    if tx.db.executemany(insert, rows).rowcount == len(jobs):
        answers = [Enqueued(job.id, created=True) for job in jobs]
    else:
        created = {place for (place,) in tx.db.execute(_CREATED, (places[0], places[-1]))}
        answers = [
            Enqueued(job.id, created=True) if place in created else existing(tx, job, place)
            for place, job in zip(places, jobs, strict=True)
        ]
    tx.db.execute(_JOIN_LANES, (places[0], places[-1]))
    if any(job.awaits for job in jobs):
        tx.db.execute(_HOLD, (places[0], places[-1]))
    if tx.anyone_asleep:
        for job, due, answer in zip(jobs, dues, answers, strict=True):
            if answer.created and not job.awaits:
                tx.join(job.lane, due)
    return answers


def options(job: NewJob, now: float) -> tuple[Any, ...]:
    """What most jobs do not say."""
    return (
        None if job.expires is None else now + job.expires,
        job.unique_key,
        job.unique_in,
        job.concurrency_key,
        job.concurrency_limit,
        job.awaits,
        job.gather,
        job.place,
    )


def existing(tx: Transaction, job: NewJob, place: int) -> Enqueued:
    """The job that was there before this one, which would have had this place."""
    if tx.db.execute(_IS_STORED, (job.id, place)).fetchone():
        return Enqueued(job.id, created=False)
    return Enqueued(
        tx.db.execute(_HOLDER, (job.key_queue, job.unique_key)).fetchone()[0], created=False
    )
