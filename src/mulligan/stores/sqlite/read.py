"""Readers: jobs, their history, lists and counts."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from mulligan.core.errors import UNREADABLE, UnknownJobError
from mulligan.core.job import Attempt, Job, Status
from mulligan.core.lane import Lane
from mulligan.core.page import Page, Selection, cursor_number
from mulligan.core.record import Record, kind_of
from mulligan.core.settings import HISTORY_LIMIT, check_batch
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView
from mulligan.stores.sqlite.counts import count_groups
from mulligan.stores.sqlite.fields import ATTEMPT_COLUMNS, JOB_LIST, Row, as_json, job_of, listed
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("read", job=JOB_LIST, attempt=listed(ATTEMPT_COLUMNS))
_GET = SQL["get"]
_STATUSES = SQL["statuses"]
_NUMBER = SQL["number"]
_HISTORY = SQL["history"]
_ARRIVALS = SQL["arrivals"]
_PAGE = SQL["page"]
_PAGE_ENDED = SQL["page_ended"]
_PAGE_RUNNING = SQL["page_running"]
_LANES = SQL["lanes"]
_HELD = SQL["held"]
_RUNNING = SQL["running"]
_ENDED_IN_GROUP = SQL["ended_in_group"]
_ALL_ENDED = SQL["all_ended"]
_NEXT_LANE = SQL["next_lane"]
_LANE_TIMES = SQL["lane_times"]
_IN_LANE = SQL["in_lane"]
_IN_LANES = SQL["in_lanes"]
_DELAYED = SQL["delayed"]
_GATHERING = SQL["gathering"]
_WORKERS = SQL["workers"]
_ENDED_GROUP = SQL["ended_group"]
_DEPTH = SQL["depth"]
_AHEAD = SQL["ahead"]
_TAIL = SQL["tail"]
_RECORDS = SQL["records"]
_SCHEDULES = SQL["schedules"]

TOP = 2**63 - 1
# So many lanes are counted one by one; of more, every job is looked at.
FEW_LANES = 200

decode_worker = msgspec.json.Decoder(Worker).decode


def get(tx: Transaction, job: str) -> Job | None:
    """The job as it is now."""
    row = tx.db.execute(_GET, {"id": job, "bodies": True}).fetchone()
    return None if row is None else job_of(row)


def statuses(tx: Transaction, jobs: Sequence[str]) -> dict[str, Status]:
    """The statuses of the stored ones of these jobs."""
    check_batch(len(jobs))
    return dict(tx.db.execute(_STATUSES, (as_json(list(jobs)),)).fetchall())


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


def ended_groups(tx: Transaction) -> Iterator[tuple[str, Status]]:
    """Each (queue, status) of which jobs have ended, found without going over the jobs."""
    group: tuple[str, Any] = ("", "")
    # A name that is no text, by another program's hand, would be found after itself again.
    after = dict.fromkeys(("queue", "status"), "")
    while (found := tx.db.execute(_ENDED_GROUP, after).fetchone()) not in (None, group):
        group = found
        after = {"queue": group[0], "status": group[1]}
        yield group


def stats(tx: Transaction) -> Stats:
    """Counts of everything, from the indexes alone but for what runs."""
    now = tx.now
    return Stats(
        now,
        lanes(tx),
        {(queue, region): number for queue, region, number in tx.db.execute(_RUNNING)},
        ended(tx),
        {queue: DelayedStats(*numbers) for queue, *numbers in tx.db.execute(_DELAYED, (now, now))},
        [
            WorkerView(worker_from(*row), beat_at, joined_at, beat_at + lease > now, running)
            for beat_at, joined_at, lease, running, *row in tx.db.execute(_WORKERS)
        ],
        dict(tx.db.execute(_GATHERING).fetchall()),
    )


def worker_from(worker: str, region: str, body: bytes) -> Worker:
    """A worker; where another program has changed what it said of itself, its id and region."""
    try:
        return decode_worker(body)
    except UNREADABLE:
        return Worker(worker, region, ())


def ended(tx: Transaction) -> dict[tuple[str, Status], int]:
    """How many jobs have ended, by queue and status."""
    return count_groups(
        ended_groups(tx),
        lambda group, limit: number(tx, _ENDED_IN_GROUP, *group, limit),
        lambda: number(tx, _ALL_ENDED),
    )


def lanes(tx: Transaction) -> list[LaneStats]:
    """The lanes that are not empty, with those whose jobs stand in lines."""
    parts: dict[Lane, list[tuple[int, int, float]]] = defaultdict(list)
    for queue, scope, priority, *numbers in [*plain_lanes(tx), *tx.db.execute(_HELD, (tx.now,))]:
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


def plain_lanes(tx: Transaction) -> Iterable[Row]:
    """(queue, scope, priority, ready, all, first due) of the jobs that stand in no line."""
    found = list(islice(filled_lanes(tx), FEW_LANES + 1))
    if len(found) > FEW_LANES:
        yield from tx.db.execute(_LANES, (tx.now,))
        return
    counts = count_groups(
        found,
        lambda lane, limit: number(tx, _IN_LANE, *lane, limit),
        lambda: number(tx, _IN_LANES),
    )
    for lane, many in counts.items():
        later, first = tx.db.execute(_LANE_TIMES, named(lane) | {"now": tx.now}).fetchone()
        yield (*lane, many - later, many, first)


def filled_lanes(tx: Transaction) -> Iterator[tuple[str, str, int]]:
    """Each lane in which a job stands, found without going over the jobs."""
    lane = ("", "", -1)
    while (found := tx.db.execute(_NEXT_LANE, named(lane)).fetchone()) not in (None, lane):
        lane = found
        yield lane


def named(lane: tuple[str, str, int]) -> dict[str, str | int | float]:
    """The lane as statements name its parts."""
    return dict(zip(("queue", "scope", "priority"), lane, strict=True))


def number(tx: Transaction, statement: str, *values: str | int) -> int:
    """The one number that a statement gives."""
    found: int = tx.db.execute(statement, values).fetchone()[0]
    return found


def depth(tx: Transaction, lane: Lane, limit: int) -> int:
    """How many jobs of the lane could start now, counted up to the limit."""
    asked = lane._asdict() | {"now": tx.now, "limit": limit}
    found: int = tx.db.execute(_DEPTH, asked).fetchone()[0]
    return found


def ahead(tx: Transaction, job: str) -> int:
    """How many jobs stand before this one in its lane."""
    row = tx.db.execute(_AHEAD, (job,)).fetchone()
    if row is None:
        raise UnknownJobError(f"job {job!r} is not stored")
    return int(row[0])


def tail(tx: Transaction, lane: Lane, due: float) -> str | None:
    """The last job in the lane that was due by then."""
    row = tx.db.execute(_TAIL, lane._asdict() | {"due": due}).fetchone()
    return None if row is None else row[0]


def records(tx: Transaction, job: str, most: int | None) -> list[Record]:
    """What the job has recorded, oldest first."""
    found = tx.db.execute(_RECORDS, {"job": job, "most": most})
    return [
        Record(kind_of(key)[0], number, value, kind_of(key)[1], token, at, size)
        for key, token, number, at, value, size in found
    ]


def schedules(tx: Transaction) -> dict[str, bytes]:
    """The records of schedules by name."""
    return {name: record.encode() for name, record in tx.db.execute(_SCHEDULES)}
