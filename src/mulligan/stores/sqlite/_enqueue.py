"""Enqueue: every job or none, each answered with its id or that of the job before it."""

from collections.abc import Sequence
from itertools import chain
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
_INSERT_ALIKE = load("enqueue_alike").replace(
    "(?1 + 0, ?9, ?10)",
    ", ".join(f"(?1 + {each}, ?{9 + 2 * each}, ?{10 + 2 * each})" for each in range(AT_ONCE)),
)
_JOIN_LANES = load("lane_begin")
_HOLD = load("held_begin")
_CREATED = load("created")
_IS_STORED = load("is_stored")
_HOLDER = load("unique_holder")

# What a job may say beyond its call and its place, and what it says if it says nothing.
OPTIONS = attrgetter(
    *("expires", "unique_key", "unique_in", "concurrency_key", "concurrency_limit"),
    *("awaits", "gather", "place"),
)
NO_OPTIONS = (None, None, None, None, 1, 0, None, 0)
PLACEMENT = attrgetter("queue", "task", "region", "priority", "delay")
ID = attrgetter("id")
NAMED = attrgetter("id", "body")


def enqueue(tx: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Add the jobs, unless they are there already."""
    check_batch(len(jobs))
    if not jobs:
        return []
    first = tx.reserve(len(jobs))
    return add(tx, jobs, range(first, first + len(jobs)))


def add(tx: Transaction, jobs: Sequence[NewJob], places: Sequence[int]) -> list[Enqueued]:
    """Add the jobs under these sequence numbers, which grow."""
    if insert(tx, jobs, places) == len(jobs):
        answers = all_created(map(ID, jobs))
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
        for job, answer in zip(jobs, answers, strict=True):
            if answer.created and not job.awaits:
                tx.join(job.lane, tx.due(job.delay))
    return answers


def insert(tx: Transaction, jobs: Sequence[NewJob], places: Sequence[int]) -> int:
    """Insert the jobs that are not there yet; gives how many those were."""
    options = list(map(OPTIONS, jobs))
    if options.count(NO_OPTIONS) < len(jobs):
        rows = [
            (*row(tx, place, job), None if said[0] is None else tx.now + said[0], *said[1:])
            for place, job, said in zip(places, jobs, options, strict=True)
        ]
        return tx.db.executemany(_INSERT, rows).rowcount
    done, inserted = insert_alike(tx, jobs, places)
    if done == len(jobs):
        return inserted
    rows = [row(tx, place, job) for place, job in zip(places[done:], jobs[done:], strict=True)]
    return inserted + tx.db.executemany(_INSERT_PLAIN, rows).rowcount


def insert_alike(tx: Transaction, jobs: Sequence[NewJob], places: Sequence[int]) -> tuple[int, int]:
    """Insert the first of these jobs, many at once, if all are alike; none of them has options.

    Gives how many it has dealt with, and how many of them were not there yet.
    """
    done = inserted = 0
    if places[-1] - places[0] == len(jobs) - 1 and len(set(map(PLACEMENT, jobs))) == 1:
        _, _, *placement, _, _ = row(tx, places[0], jobs[0])
        shared = (*placement, TOKENS_PER_LIFE)
        own = list(map(NAMED, jobs))
        while len(jobs) - done >= AT_ONCE:
            new = chain.from_iterable(own[done : done + AT_ONCE])
            inserted += tx.db.execute(_INSERT_ALIKE, (places[done], *shared, *new)).rowcount
            done += AT_ONCE
    return done, inserted


def row(tx: Transaction, place: int, job: NewJob) -> tuple[Any, ...]:
    """What every job says."""
    return (
        *(place, job.id, job.queue, job.task, job.region, job.priority),
        *(tx.now if job.awaits else tx.due(job.delay), tx.now, first_token(place), job.body),
    )


def existing(tx: Transaction, job: NewJob, place: int) -> Enqueued:
    """The job that was there before this one, which would have had this place."""
    if tx.db.execute(_IS_STORED, (job.id, place)).fetchone():
        return Enqueued(job.id, created=False)
    return Enqueued(
        tx.db.execute(_HOLDER, (job.key_queue, job.unique_key)).fetchone()[0], created=False
    )
