"""Enqueue: every job or none, each answered with its id or that of the job before it."""

from collections.abc import Sequence
from operator import attrgetter

from mulligan.core.job import NEW_ANSWER, TOKENS_PER_LIFE, Enqueued, NewJob, all_created
from mulligan.core.settings import check_batch
from mulligan.stores.rules import enqueue as rules
from mulligan.stores.sqlite.fields import (
    ALIKE_LIST,
    NO_OPTIONS,
    PLAIN_COLUMNS,
    alike_rows,
    listed,
    marks,
    options_of,
    plain_row,
    shared_row,
)
from mulligan.stores.sqlite.rows import apply
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

# Of jobs that are alike so many are inserted by one statement: half the work of one each.
AT_ONCE = 50
# Options that need no look at other jobs.
SIMPLE = (
    *("expires_at", "unique_in", "awaits", "gather", "gather_index", "return_exceptions", "keep"),
)

SQL = load(
    "enqueue",
    plain_columns=listed(PLAIN_COLUMNS),
    plain_marks=marks(PLAIN_COLUMNS),
    simple_columns=listed([*PLAIN_COLUMNS, *SIMPLE]),
    simple_marks=marks([*PLAIN_COLUMNS, *SIMPLE]),
    own_rows=alike_rows(AT_ONCE),
    alike=ALIKE_LIST,
)
_INSERT_PLAIN = SQL["insert_plain"]
_INSERT_SIMPLE = SQL["insert_simple"]
_INSERT_ALIKE = SQL["insert_alike"]
_JOIN_LANES = SQL["join_lanes"]
_JOIN_LANE = SQL["join_lane"]
_JOIN_ALONE = SQL["join_alone"]
_CREATED = SQL["created"]
_HOLD = SQL["hold"]

id_of = attrgetter("id")


def enqueue(tx: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Add the jobs, unless they are there already."""
    if len(jobs) == 1 and are_alike(jobs):
        return [enqueue_one(tx, jobs[0])]
    check_batch(len(jobs))
    if not jobs:
        return []
    alike = are_alike(jobs)
    if alike or all(map(is_plain, jobs)):
        return enqueue_plain(tx, jobs, alike=alike)
    return apply(tx, rules.enqueue, jobs)


def enqueue_one(tx: Transaction, job: NewJob) -> Enqueued:
    """As `enqueue`, for one job that has no options: most come so, in the fewest steps."""
    number = tx.next_number()
    if not insert_one(tx, job, number):
        return Enqueued(job.id, created=False)
    if tx.anyone_asleep:
        tx.join(job.lane, tx.due(job.delay))
    answer: Enqueued = NEW_ANSWER((job.id, True))
    return answer


def enqueue_plain(tx: Transaction, jobs: Sequence[NewJob], *, alike: bool) -> list[Enqueued]:
    """As `enqueue`, for jobs that have no options: only an id may be there already."""
    first = tx.next_number()
    numbers = range(first, first + len(jobs))
    if alike:
        inserted = insert_alike(tx, jobs, numbers)
    else:
        inserted = insert(tx, jobs, numbers)
        tx.db.execute(_JOIN_LANES, (numbers[0], numbers[-1]))
        if any(job.awaits for job in jobs):
            tx.db.execute(_HOLD, (numbers[0], numbers[-1]))
    if inserted == len(jobs):
        answers = all_created(map(id_of, jobs))
    else:
        created = {number for (number,) in tx.db.execute(_CREATED, (numbers[0], numbers[-1]))}
        answers = [
            Enqueued(job.id, created=number in created)
            for number, job in zip(numbers, jobs, strict=True)
        ]
    if tx.anyone_asleep:
        for job, answer in zip(jobs, answers, strict=True):
            if answer.created and not job.awaits:
                tx.join(job.lane, tx.due(job.delay))
    return answers


def is_plain(job: NewJob) -> bool:
    """Whether only its id may be there already, and it stands in no line."""
    return job.unique_key is None and job.limits is None and job.fairness_key is None


def insert(tx: Transaction, jobs: Sequence[NewJob], numbers: Sequence[int]) -> int:
    """Insert jobs of which only an id may be there already; gives how many were not."""
    if list(map(options_of, jobs)).count(NO_OPTIONS) == len(jobs):
        return insert_plain(tx, jobs, numbers)
    rows = [
        (
            *plain_row(job, number, tx.due(0 if job.awaits else job.delay), tx.now),
            *simple_row(job, tx.now),
        )
        for number, job in zip(numbers, jobs, strict=True)
    ]
    return tx.db.executemany(_INSERT_SIMPLE, rows).rowcount


def simple_row(job: NewJob, now: float) -> tuple[object, ...]:
    """Those of a job's options that need no look at other jobs."""
    expires_at = None if job.expires is None else now + job.expires
    gather = (job.awaits, job.gather, job.gather_index, job.return_exceptions)
    return (expires_at, job.unique_in, *gather, job.keep)


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
            or job.expires is not None
            or job.unique_in is not None
            or job.limits is not None
            or job.fairness_key is not None
            or job.awaits
            or job.gather is not None
            or job.gather_index
            or job.keep is not None
            or job.debounce_max is not None
            or job.unique_for is not None
            or job.return_exceptions
        ):
            return False
    return True


def insert_plain(tx: Transaction, jobs: Sequence[NewJob], numbers: Sequence[int]) -> int:
    """Insert the jobs, which have no options, into their table alone."""
    rows = [
        plain_row(job, number, tx.due(job.delay), tx.now)
        for number, job in zip(numbers, jobs, strict=True)
    ]
    return tx.db.executemany(_INSERT_PLAIN, rows).rowcount


def insert_one(tx: Transaction, job: NewJob, number: int) -> int:
    """As `insert`, for a job that has no options: most come so, in the fewest steps."""
    now = tx.now
    due = tx.due(job.delay)
    row = plain_row(job, number, due, now)
    inserted = tx.db.execute(_INSERT_PLAIN, row).rowcount
    if inserted:
        lane = (job.queue, job.region, row[2], due, number, number, due > now)
        tx.db.execute(_JOIN_ALONE, lane)
    return inserted


def insert_alike(tx: Transaction, jobs: Sequence[NewJob], numbers: Sequence[int]) -> int:
    """As `insert`, many at once, for jobs that are alike."""
    first = jobs[0]
    due = tx.due(first.delay)
    shared = shared_row(first, due, tx.now, TOKENS_PER_LIFE)
    inserted = done = 0
    while len(jobs) - done >= AT_ONCE:
        own = [
            each
            for number, job in zip(numbers[done : done + AT_ONCE], jobs[done:], strict=False)
            for each in (number, job.id, bytearray(job.body))
        ]
        inserted += tx.db.execute(_INSERT_ALIKE, (*own, *shared)).rowcount
        done += AT_ONCE
    inserted += insert_plain(tx, jobs[done:], numbers[done:])
    lane = (first.queue, first.region, int(first.priority))
    tx.db.execute(_JOIN_LANE, (*lane, due, due > tx.now, numbers[0], numbers[-1]))
    return inserted
