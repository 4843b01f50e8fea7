"""Enqueue: every job or none, each answered with its id or that of the job before it."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from mulligan.core.job import TOKENS_PER_LIFE, Enqueued, NewJob, all_created, first_token
from mulligan.core.settings import check_batch
from mulligan.stores.sqlite._sql import load
from mulligan.stores.sqlite._transaction import Transaction

_INSERT = load("enqueue")
_INSERT_PLAIN = load("enqueue_plain")
# Of jobs that are alike so many are inserted by one statement: half the work of one each.
AT_ONCE = 50
_INSERT_ALIKE = load("enqueue_alike").replace("(?, ?, ?)", ", ".join(["(?, ?, ?)"] * AT_ONCE))
_JOIN_LANES = load("lane_begin")
_JOIN_LANE = load("lane_begin_alike")
_HOLD = load("held_begin")
_CREATED = load("created")
_IS_STORED = load("is_stored")
_HOLDER = load("unique_holder")

# What a job may say beyond its call and its place, and what it says if it says nothing.
OPTIONS = attrgetter(
    *("expires", "unique_key", "unique_in", "concurrency_key", "concurrency_limit"),
    *("awaits", "gather", "gather_index"),
)
NO_OPTIONS = (None, None, None, None, 1, 0, None, 0)
ID = attrgetter("id")


def enqueue(tx: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Add the jobs, unless they are there already."""
    check_batch(len(jobs))
    if not jobs:
        return []
    first = tx.reserve(len(jobs))
    return add(tx, jobs, range(first, first + len(jobs)))


def add(tx: Transaction, jobs: Sequence[NewJob], places: Sequence[int]) -> list[Enqueued]:
    """Add the jobs under these sequence numbers, which grow."""
    alike = places[-1] - places[0] == len(jobs) - 1 and are_alike(jobs)
    if (insert_alike if alike else insert)(tx, jobs, places) == len(jobs):
        answers = all_created(map(ID, jobs))
    else:
        created = {place for (place,) in tx.db.execute(_CREATED, (places[0], places[-1]))}
        answers = [
            Enqueued(job.id, created=True) if place in created else existing(tx, job, place)
            for place, job in zip(places, jobs, strict=True)
        ]
    if tx.anyone_asleep:
        for job, answer in zip(jobs, answers, strict=True):
            if answer.created and not job.awaits:
                tx.join(job.lane, tx.due(job.delay))
    return answers


def are_alike(jobs: Sequence[NewJob]) -> bool:
    """Whether the jobs differ in id and body alone, and have no options.

    They are looked at field by field: to make and compare tuples takes three times as long.
    """
    first = jobs[0]
    queue, task, region, priority = first.queue, first.task, first.region, first.priority
    delay = first.delay
    for job in jobs:
        if (
            job.queue != queue
            or job.task != task
            or job.region != region
            or job.priority != priority
            or job.delay != delay
            or job.unique_key is not None
            or job.concurrency_key is not None
            or job.expires is not None
            or job.unique_in is not None
            or job.concurrency_limit != 1
            or job.awaits
            or job.gather is not None
            or job.gather_index
        ):
            return False
    return True


def insert(tx: Transaction, jobs: Sequence[NewJob], places: Sequence[int]) -> int:
    """Insert the jobs that are not there yet where they stand; gives how many those were."""
    if list(map(OPTIONS, jobs)).count(NO_OPTIONS) == len(jobs):
        rows = [row(tx, place, job) for place, job in zip(places, jobs, strict=True)]
        inserted = tx.db.executemany(_INSERT_PLAIN, rows).rowcount
    else:
        rows = [
            (*row(tx, place, job), *optional(tx, job))
            for place, job in zip(places, jobs, strict=True)
        ]
        inserted = tx.db.executemany(_INSERT, rows).rowcount
    tx.db.execute(_JOIN_LANES, (places[0], places[-1]))
    if any(job.awaits for job in jobs):
        tx.db.execute(_HOLD, (places[0], places[-1]))
    return inserted


def insert_alike(tx: Transaction, jobs: Sequence[NewJob], places: Sequence[int]) -> int:
    """As `insert`, many at once, for jobs that are alike."""
    first = jobs[0]
    due = tx.due(first.delay)
    lane = (first.region, int(first.priority))
    delayed = due > tx.now
    shared = (first.queue, first.task, *lane, *lane, due, delayed, TOKENS_PER_LIFE, tx.now)
    inserted = done = 0
    while len(jobs) - done >= AT_ONCE:
        own = [
            each
            for place, job in zip(places[done : done + AT_ONCE], jobs[done:], strict=False)
            for each in (place, job.id, bytearray(job.body))
        ]
        inserted += tx.db.execute(_INSERT_ALIKE, (*own, *shared)).rowcount
        done += AT_ONCE
    rows = [row(tx, place, job) for place, job in zip(places[done:], jobs[done:], strict=True)]
    inserted += tx.db.executemany(_INSERT_PLAIN, rows).rowcount
    tx.db.execute(_JOIN_LANE, (first.queue, *lane, due, delayed, places[0], places[-1]))
    return inserted


def row(tx: Transaction, place: int, job: NewJob) -> tuple[Any, ...]:
    """What every job says; SQLite takes a bytearray and a plain int in a third of the time."""
    lane = (job.region, int(job.priority))
    due = tx.now if job.awaits else tx.due(job.delay)
    return (
        *(place, job.id, job.queue, job.task, *lane, *lane, due, 0 if job.awaits else place),
        *(due > tx.now, first_token(place), tx.now, bytearray(job.body)),
    )


def optional(tx: Transaction, job: NewJob) -> tuple[Any, ...]:
    """What only some jobs say."""
    return (
        *(None if job.expires is None else tx.now + job.expires, job.unique_key, job.unique_in),
        *(None if job.unique_key is None else job.key_queue, job.concurrency_key),
        *(job.concurrency_limit, job.awaits, job.gather, job.gather_index),
    )


def existing(tx: Transaction, job: NewJob, place: int) -> Enqueued:
    """The job that was there before this one, which would have had this place."""
    if tx.db.execute(_IS_STORED, (job.id, place)).fetchone():
        return Enqueued(job.id, created=False)
    return Enqueued(
        tx.db.execute(_HOLDER, (job.key_queue, job.unique_key)).fetchone()[0], created=False
    )
