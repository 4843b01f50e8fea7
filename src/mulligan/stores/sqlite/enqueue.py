"""Enqueue: every job or none, each answered with its id or that of the job before it."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from mulligan.core.job import NEW_ANSWER, TOKENS_PER_LIFE, Enqueued, NewJob, all_created
from mulligan.core.lane import Lane
from mulligan.core.settings import check_batch
from mulligan.core.unique import debounced_due, takes_over
from mulligan.stores.sqlite.fields import (
    ALIKE_LIST,
    NEW_COLUMNS,
    NO_OPTIONS,
    PLAIN_COLUMNS,
    Row,
    alike_rows,
    listed,
    marks,
    options_of,
    options_row,
    plain_row,
    shared_row,
)
from mulligan.stores.sqlite.stand import join_lanes, leave_lane, stand_in_lines
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

# Of jobs that are alike so many are inserted by one statement: half the work of one each.
AT_ONCE = 50

SQL = load(
    "enqueue",
    columns=listed(NEW_COLUMNS),
    marks=marks(NEW_COLUMNS),
    plain_columns=listed(PLAIN_COLUMNS),
    plain_marks=marks(PLAIN_COLUMNS),
    own_rows=alike_rows(AT_ONCE),
    alike=ALIKE_LIST,
)
_INSERT = SQL["insert"]
_INSERT_PLAIN = SQL["insert_plain"]
_INSERT_ALIKE = SQL["insert_alike"]
_JOIN_LANES = SQL["join_lanes"]
_JOIN_LANE = SQL["join_lane"]
_JOIN_ALONE = SQL["join_alone"]
_HOLD = SQL["hold"]
_CREATED = SQL["created"]
_IS_STORED = SQL["is_stored"]
_UNIQUE_HOLDER = SQL["unique_holder"]
_FREE_LENT_KEY = SQL["free_lent_key"]
_DEBOUNCED = SQL["debounced"]
_CALL_ANEW = SQL["call_anew"]
_PUT_OFF = SQL["put_off"]

id_of = attrgetter("id")


def enqueue(tx: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Add the jobs, unless they are there already."""
    if len(jobs) == 1 and are_alike(jobs):
        return [enqueue_one(tx, jobs[0])]
    check_batch(len(jobs))
    if not jobs:
        return []
    first = tx.next_number()
    return add(tx, jobs, range(first, first + len(jobs)))


def enqueue_one(tx: Transaction, job: NewJob) -> Enqueued:
    """As `enqueue`, for one job that has no options: most come so, in the fewest steps."""
    number = tx.next_number()
    if not insert_one(tx, job, number):
        return existing(tx, job, number)
    if tx.anyone_asleep:
        tx.join(job.lane, tx.due(job.delay))
    answer: Enqueued = NEW_ANSWER((job.id, True))
    return answer


def add(tx: Transaction, jobs: Sequence[NewJob], numbers: Sequence[int]) -> list[Enqueued]:
    """Add the jobs under these sequence numbers, which grow."""
    alike = numbers[-1] - numbers[0] == len(jobs) - 1 and are_alike(jobs)
    if alike and len(jobs) == 1:
        inserted = insert_one(tx, jobs[0], numbers[0])
    else:
        inserted = (insert_alike if alike else insert)(tx, jobs, numbers)
    if inserted == len(jobs):
        answers = all_created(map(id_of, jobs))
    else:
        created = {number for (number,) in tx.db.execute(_CREATED, (numbers[0], numbers[-1]))}
        answers = [
            Enqueued(job.id, created=True) if number in created else existing(tx, job, number)
            for number, job in zip(numbers, jobs, strict=True)
        ]
    if tx.anyone_asleep:
        for job, answer in zip(jobs, answers, strict=True):
            if answer.created and not job.awaits and stands_in_lane(job):
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


class MayStandInLine(Protocol):
    """What may name limits, or have a fairness key."""

    @property
    def limits(self) -> str | None:
        """The limits that it names."""

    @property
    def fairness_key(self) -> str | None:
        """Its fairness key."""


def stands_in_lane(job: MayStandInLine) -> bool:
    """Whether it stands in its lane itself, and in no line of it."""
    return job.limits is None and job.fairness_key is None


def insert(tx: Transaction, jobs: Sequence[NewJob], numbers: Sequence[int]) -> int:
    """Insert the jobs that are not there yet where they stand; gives how many those were."""
    if list(map(options_of, jobs)).count(NO_OPTIONS) == len(jobs):
        inserted = insert_plain(tx, jobs, numbers)
    else:
        free_lent_keys(tx, jobs)
        rows = [
            (*row_of(tx, job, number), *options_row(job, tx.now))
            for number, job in zip(numbers, jobs, strict=True)
        ]
        inserted = tx.db.executemany(_INSERT, rows).rowcount
    tx.db.execute(_JOIN_LANES, (numbers[0], numbers[-1]))
    if not all(map(stands_in_lane, jobs)):
        stand_in_lines(tx, numbers)
    if any(job.awaits for job in jobs):
        hold(tx, numbers[0], numbers[-1])
    return inserted


def insert_plain(tx: Transaction, jobs: Sequence[NewJob], numbers: Sequence[int]) -> int:
    """Insert the jobs, which have no options, into their table alone."""
    rows = [row_of(tx, job, number) for number, job in zip(numbers, jobs, strict=True)]
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


def row_of(tx: Transaction, job: NewJob, number: int) -> Row:
    """The job without its options; one that awaits others is due only when they have arrived."""
    return plain_row(job, number, tx.now if job.awaits else tx.due(job.delay), tx.now)


def hold(tx: Transaction, first: int, last: int) -> None:
    """Hold new jobs of these numbers that await others until those have arrived."""
    tx.db.execute(_HOLD, (first, last))


def existing(tx: Transaction, job: NewJob, number: int) -> Enqueued:
    """The stored job that this one repeats; `number` is what this one would have had."""
    if tx.db.execute(_IS_STORED, (job.id, number)).fetchone():
        return Enqueued(job.id, created=False)
    holder = unique_holder(tx, job.key_queue, job.unique_key)
    if holder is not None and takes_over(holder, job):
        debounce(tx, holder, job, number)
    return Enqueued(holder or job.id, created=False)


def unique_holder(tx: Transaction, queue: str, key: str | None) -> str | None:
    """The id of the job that has the unique key."""
    row = tx.db.execute(_UNIQUE_HOLDER, (queue, key)).fetchone()
    return None if row is None else row[0]


class Keyed(Protocol):
    """What may have a unique key."""

    @property
    def key_queue(self) -> str:
        """The queue of the key."""

    @property
    def unique_key(self) -> str | None:
        """The key."""


def free_lent_keys(tx: Transaction, jobs: Sequence[Keyed]) -> None:
    """Release unique keys of these jobs that other jobs still have and no longer hold."""
    keys = [(job.key_queue, job.unique_key, tx.now) for job in jobs if job.unique_key is not None]
    tx.db.executemany(_FREE_LENT_KEY, keys)


def debounce(tx: Transaction, holder: str, job: NewJob, sequence: int) -> None:
    """Replace the call of a debounced job that has not started by a later one, and postpone it."""
    row = tx.db.execute(_DEBOUNCED, (holder,)).fetchone()
    if row is None:
        return
    number, until, stands_in_lane, *lane = row
    tx.db.execute(_CALL_ANEW, (job.task, bytearray(job.body), number))
    tx.keep_number(sequence)
    due = debounced_due(tx.now, job.delay, until)
    leave_lane(tx, number)
    tx.db.execute(_PUT_OFF, (due, sequence, due > tx.now, number))
    join_lanes(tx, [number])
    if stands_in_lane:
        tx.join(Lane(*lane), due)
