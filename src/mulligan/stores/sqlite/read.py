"""Readers: jobs, their history, lists and counts."""

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from mulligan.core.errors import UnknownJobError
from mulligan.core.job import Attempt, Job
from mulligan.core.lane import Lane
from mulligan.core.page import Page, Selection, cursor_number
from mulligan.core.settings import HISTORY_LIMIT
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView
from mulligan.stores.sqlite.fields import ATTEMPT_COLUMNS, JOB_LIST, job_of, listed
from mulligan.stores.sqlite.statements import as_json, load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("read", job=JOB_LIST, attempt=listed(ATTEMPT_COLUMNS))
_GET = SQL["get"]
_NUMBER = SQL["number"]
_HISTORY = SQL["history"]
_ARRIVALS = SQL["arrivals"]
_PAGE = SQL["page"]
_PAGE_ENDED = SQL["page_ended"]
_PAGE_RUNNING = SQL["page_running"]
_LANES = SQL["lanes"]
_HELD = SQL["held"]
_RUNNING = SQL["running"]
_ENDED = SQL["ended"]
_DELAYED = SQL["delayed"]
_GATHERING = SQL["gathering"]
_WORKERS = SQL["workers"]
_ENDED_GROUP = SQL["ended_group"]
_DEPTH = SQL["depth"]
_AHEAD = SQL["ahead"]
_TAIL = SQL["tail"]

TOP = 2**63 - 1

decode_worker = msgspec.json.Decoder(Worker).decode


def get(tx: Transaction, job: str) -> Job | None:
    """The job as it is now."""
    row = tx.db.execute(_GET, {"id": job, "bodies": True}).fetchone()
    return None if row is None else job_of(row)


def number_of(tx: Transaction, job: str) -> int:
    """The number of the job, 0 if it is unknown."""
    row = tx.db.execute(_NUMBER, (job,)).fetchone()
    return 0 if row is None else int(row[0])


def history(tx: Transaction, job: str) -> list[Attempt]:
    """The job's newest failed attempts, oldest first."""
    rows = tx.db.execute(_HISTORY, (job, HISTORY_LIMIT)).fetchall()
    return [Attempt(*row) for row in reversed(rows)]


def arrivals(tx: Transaction, job: str) -> dict[int, bytes | None]:
    """The results that have arrived at the job, by index."""
    return dict(tx.db.execute(_ARRIVALS, (job,)).fetchall())


def page(
    tx: Transaction,
    selection: Selection,
    limit: int,
    after: str | None,
    *,
    bodies: bool,
    looks: int,
) -> Page:
    """Jobs that match, newest first; a text is sought down to the last of so many."""
    wanted = msgspec.structs.asdict(selection) | {
        "below": TOP if after is None else cursor_number(after),
        "floor": -TOP - 1,
        "limit": limit + 1,
        "skip": 0,
        "bodies": bodies,
    }
    statement = _PAGE
    if selection.status in ("failed", "cancelled"):
        statement = _PAGE_ENDED
        wanted["queues"] = as_json(sorted({queue for queue, _ in ended_groups(tx)}))
    elif selection.status == "processing":
        statement = _PAGE_RUNNING
    last: int | None = None
    if selection.text is not None:
        one = {"text": None, "limit": 1, "skip": looks - 1, "bodies": False}
        row = tx.db.execute(statement, wanted | one).fetchone()
        if row is not None:
            last = wanted["floor"] = row[0]
    rows = tx.db.execute(statement, wanted).fetchall()
    if len(rows) > limit:
        last = rows[limit - 1][0]
    return Page([job_of(row[1:]) for row in rows[:limit]], None if last is None else str(last))


def ended_groups(tx: Transaction) -> Iterator[tuple[str, str]]:
    """Each (queue, status) of which jobs have ended, found without going over the jobs."""
    group = ("", "")
    # A name that is no text, by another program's hand, would be found after itself again.
    while (found := tx.db.execute(_ENDED_GROUP, group).fetchone()) not in (None, group):
        group = found
        yield group


def stats(tx: Transaction) -> Stats:
    """Counts of everything, from the indexes alone but for what runs."""
    now = tx.now
    return Stats(
        now,
        lanes(tx),
        {(queue, region): number for queue, region, number in tx.db.execute(_RUNNING)},
        {(queue, status): number for queue, status, number in tx.db.execute(_ENDED)},
        {queue: DelayedStats(*numbers) for queue, *numbers in tx.db.execute(_DELAYED, (now, now))},
        [
            WorkerView(decode_worker(body), beat_at, joined_at, beat_at + lease > now, running)
            for body, beat_at, joined_at, lease, running in tx.db.execute(_WORKERS)
        ],
        dict(tx.db.execute(_GATHERING).fetchall()),
    )


def lanes(tx: Transaction) -> list[LaneStats]:
    """The lanes that are not empty, with those whose jobs stand in lines."""
    parts: dict[Lane, list[tuple[int, int, float]]] = defaultdict(list)
    for statement in (_LANES, _HELD):
        for queue, scope, priority, *numbers in tx.db.execute(statement, (tx.now,)):
            parts[Lane(queue, scope, priority)].append((numbers[0], numbers[1], numbers[2]))
    return [
        LaneStats(
            lane,
            ready := sum(part[0] for part in found),
            sum(part[1] for part in found) - ready,
            min(part[2] for part in found),
        )
        for lane, found in sorted(parts.items())
    ]


def depth(tx: Transaction, lane: Lane, limit: int) -> int:
    """How many jobs of the lane could start now, counted up to the limit."""
    asked = lane._asdict() | {"now": tx.now, "limit": limit}
    number: int = tx.db.execute(_DEPTH, asked).fetchone()[0]
    return number


def ahead(tx: Transaction, job: str) -> int:
    """How many jobs stand before this one in its lane."""
    row = tx.db.execute(_AHEAD, (job,)).fetchone()
    if row is None:
        raise UnknownJobError(f"job {job!r} is not stored")
    number: int = row[0]
    return number


def tail(tx: Transaction, lane: Lane, due: float) -> str | None:
    """The last job in the lane that was due by then."""
    row = tx.db.execute(_TAIL, lane._asdict() | {"due": due}).fetchone()
    return None if row is None else row[0]
