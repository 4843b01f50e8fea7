"""Commit: each outcome whose lease is still held is written, and each is answered."""

import sqlite3
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

from mulligan.core.gather import lost_value
from mulligan.core.job import TOKENS_PER_LIFE, Attempt, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import costs_of, pauses_of
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Later,
    Limited,
    LimitUse,
    Outcome,
    Returned,
    Verdict,
)
from mulligan.core.settings import HISTORY_LIMIT, check_batch
from mulligan.stores.sqlite.enqueue import add, stands_in_lane
from mulligan.stores.sqlite.fields import ATTEMPT_ROW, as_json, attempt_row, listed, marks
from mulligan.stores.sqlite.gather import Arrival, Member, arrive, miss
from mulligan.stores.sqlite.limits import Held, release
from mulligan.stores.sqlite.lines import LineBook
from mulligan.stores.sqlite.stand import join_lanes
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import (
    Transaction,
    close,
    run_in_transaction,
    stop_running,
)

SQL = load("commit", attempt_row=listed(ATTEMPT_ROW), attempt_marks=marks(ATTEMPT_ROW))
_ROWS = SQL["rows"]
_DONE_IF_HELD = SQL["done_if_held"]
_HELD = SQL["held"]
_KEEP_ATTEMPT = SQL["keep_attempt"]
_END = SQL["end"]
_PUT_OFF = SQL["put_off"]
_SET_LIMITS = SQL["set_limits"]
_ADD_ATTEMPT = SQL["add_attempt"]
_TRIM_ATTEMPTS = SQL["trim_attempts"]
# In the order in which they are run.
_WRITES = (_END, _PUT_OFF, _SET_LIMITS, _ADD_ATTEMPT, _TRIM_ATTEMPTS)


def commit(tx: Transaction, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Write the outcomes in order, and say what became of each."""
    check_batch(len(outcomes))
    if written_at_once(tx, outcomes):
        return ["written"] * len(outcomes)
    batch = Batch(tx, outcomes)
    verdicts = [batch.add(outcome) for outcome in outcomes]
    batch.settle()
    return verdicts


def commit_within(tx: Transaction, outcome: Done, work: Callable[[Any], Any]) -> Verdict:
    """Write the outcome, and have the work done beside it if its lease was held till now."""
    [verdict] = commit(tx, [outcome])
    if verdict == "written":
        run_in_transaction(tx.db, work)
    return verdict


def written_at_once(tx: Transaction, outcomes: Sequence[Outcome]) -> bool:
    """The common case, in few statements: all done and held, and nothing to arrive."""
    dones = [o for o in outcomes if type(o) is Done and not o.next and o.use is None]
    try:
        leases = {o.lease.job: token_and_result(o.lease.token, o.result) for o in dones}
    except UnicodeDecodeError:  # no JSON, but kept as it is
        return False
    if len(leases) < len(outcomes):
        return False
    bound = (tx.now, tx.now, as_json(leases), TOKENS_PER_LIFE)
    try:
        ended = tx.db.execute(_DONE_IF_HELD, bound).rowcount
    except sqlite3.IntegrityError:
        return False
    if ended:
        numbers = [o.lease.token // TOKENS_PER_LIFE for o in dones]
        held = tx.db.execute(_HELD, (as_json(numbers),)).fetchall()
        close(tx, numbers)
        if held:
            LineBook(tx).end_many(held)
    return bool(ended)


def token_and_result(token: int, result: bytes | None) -> int | str:
    """Both in one value, which SQLite takes apart faster than an array."""
    return token if result is None else f"{token} {result.decode()}"


class Row(NamedTuple):
    """A stored job, as far as a commit needs to know it."""

    id: str
    number: int
    token: int | None
    committed: int
    limits: str | None
    fairness_key: str | None
    holds: str | None
    started_at: float
    gather: str | None
    gather_index: int
    queue: str
    scope: str
    lane_priority: int
    due: float
    retry_count: int

    @property
    def lane(self) -> Lane:
        """The lane that it was taken from."""
        return Lane(self.queue, self.scope, self.lane_priority)


def changes_lines(outcome: Outcome, row: Row) -> bool:
    """Whether a job joins a line by the outcome, or may, or a limit is used.

    Permits that were freed before it let other lines go on first, and its own do so after it.
    """
    match outcome:
        case Done(_, _, following, _, use) | Dead(_, _, following, use):
            return (
                use is not None or row.gather is not None or not all(map(stands_in_lane, following))
            )
        case Again(use=use) | Later(use=use):
            return use is not None or not stands_in_lane(row)
        case Limited():
            return outcome.limits is not None or outcome.fairness_key is not None
        case Cancelled():
            return row.gather is not None
        case _:
            return not stands_in_lane(row)


class Batch:
    """Outcomes of mixed kinds, collected by statement and written together."""

    def __init__(self, tx: Transaction, outcomes: Sequence[Outcome]) -> None:
        self._tx = tx
        ids = as_json([outcome.lease.job for outcome in outcomes])
        self._rows = {row[0]: Row(*row) for row in tx.db.execute(_ROWS, (ids,))}
        needed = sum(self._sequences(outcome) for outcome in outcomes)
        self._sequence = count(tx.reserve(needed) if needed else 0)
        self._written: list[Held] = []
        self._writes: dict[str, list[tuple[Any, ...]]] = {statement: [] for statement in _WRITES}
        self._ending: list[int] = []
        self._going_on: list[int] = []
        self._arrivals: list[Arrival] = []
        self._next: list[tuple[NewJob, int]] = []

    def _sequences(self, outcome: Outcome) -> int:
        """How many jobs the outcome may let join a lane."""
        match outcome:
            case Done(lease, _, following, _):
                row = self._rows.get(lease.job)
                return len(following) + (row is not None and row.gather is not None)
            case Dead(lease, _, following, _):
                row = self._rows.get(lease.job)
                return len(following) + (row is not None and row.gather is not None)
            case Again() | Later():
                return 1
            case _:
                return 0

    def add(self, outcome: Outcome) -> Verdict:
        """Collect what the outcome changes, if its lease is held."""
        job, token = outcome.lease
        row = self._rows.get(job)
        if row is None:
            return "stale"
        if row.token != token:
            return "already" if row.committed == token else "stale"
        self._rows[job] = row._replace(committed=token, token=None)
        alone = changes_lines(outcome, row)
        if alone:
            self.settle()
        self._collect(outcome, row)
        refunded = isinstance(outcome, Returned | Limited)
        self._written.append(Held(job, row.holds, row.started_at, refunded))
        if alone:
            self.settle()
        return "written"

    def settle(self) -> None:
        """Write what was collected, and free the permits of the jobs that were written."""
        self.flush()
        release(self._tx, self._written)
        self._written.clear()

    def _collect(self, outcome: Outcome, row: Row) -> None:
        number = row.number
        match outcome:
            case Done(_, result, following, hands_on, use):
                self._use(row, use)
                self._end(number, "done", result=result)
                if not hands_on:
                    self._arrive(row, result, "done")
                self._follow(following)
            case Dead(_, failure, following, use):
                self._use(row, use)
                self._remember(row.id, failure)
                self._end(number, "failed")
                if row.gather is not None:
                    self._arrive(row, lost_value(row.id, failure), "failed")
                self._follow(following)
            case Cancelled(_, reason):
                self._end(number, "cancelled", reason=reason)
                self._miss(row, reason)
            case Again(_, lane, delay, failure, trail, free, use):
                self._use(row, use)
                self._remember(row.id, failure)
                self._put_off(row, lane, delay, retries=not free, snoozes=free, trail=trail)
            case Later(_, delay, use):
                self._use(row, use)
                self._put_off(row, row.lane, delay, snoozes=1)
            case Returned():
                self._go_on(row, row.lane, row.due)
            case Limited(_, limits, key, trail):
                self._writes[_SET_LIMITS].append((limits, key, trail, number))
                self._go_on(row._replace(limits=limits, fairness_key=key), row.lane, row.due)

    def _use(self, row: Row, use: LimitUse | None) -> None:
        """Charge what the attempt spent of limits besides, and pause those that it says."""
        if use is not None:
            book = LineBook(self._tx)
            for name, cost in use.spent:
                book.spend(name, cost)
            names = [(name, book.limit_of(name)) for name, _ in costs_of(row.limits)]
            for name, pause in pauses_of(use.pauses, use.retry_after, names):
                book.pause(name, self._tx.due(pause), at_least=True)

    def _go_on(self, row: Row, lane: Lane, due: float) -> None:
        self._going_on.append(row.number)
        if stands_in_lane(row):
            self._tx.join(lane, due)

    def _end(
        self, number: int, status: Status, *, result: bytes | None = None, reason: str | None = None
    ) -> None:
        self._ending.append(number)
        now = self._tx.now
        pruned = None if status == "failed" else now
        self._writes[_END].append((status, now, result, reason, pruned, number))

    def _put_off(
        self,
        row: Row,
        lane: Lane,
        delay: float,
        *,
        retries: int = 0,
        snoozes: int = 0,
        trail: str | None = None,
    ) -> None:
        due = self._tx.due(delay)
        self._go_on(row, lane, due)
        _, scope, priority = lane
        self._writes[_PUT_OFF].append(
            (
                scope,
                priority,
                due,
                next(self._sequence),
                due > self._tx.now,
                retries,
                snoozes,
                trail,
                row.number,
            )
        )

    def _remember(self, job: str, failure: Attempt) -> None:
        self._writes[_ADD_ATTEMPT].append(attempt_row(job, failure, self._tx.now))
        self._writes[_TRIM_ATTEMPTS].append((job, job, HISTORY_LIMIT))

    def _arrive(self, row: Row, result: bytes | None, how: str) -> None:
        if row.gather is not None:
            arrival = Arrival(row.gather, row.gather_index, result, next(self._sequence), how)
            self._arrivals.append(arrival)

    def _miss(self, row: Row, reason: str) -> None:
        if row.gather is not None:
            self.flush()  # what arrived before it counts
            member = Member(row.id, row.gather, row.gather_index, row.retry_count)
            miss(self._tx, member, reason, ran=True)

    def _follow(self, following: tuple[NewJob, ...]) -> None:
        if not following:
            return
        self._next += [(job, next(self._sequence)) for job in following]
        if any(job.unique_key is not None or job.awaits for job in following):
            # Whether a key is free depends on the outcomes before this one, and on no later one;
            # what arrives at a new job does on those after it.
            self.flush()

    def flush(self) -> None:
        """Write what was collected: the attempts as they were, then what became of their jobs."""
        if left := self._ending + self._going_on:
            self._tx.db.execute(_KEEP_ATTEMPT, (as_json(left),))
        for statement, rows in self._writes.items():
            if rows:
                self._tx.db.executemany(statement, rows)
                rows.clear()
        close(self._tx, self._ending)
        stop_running(self._tx, self._going_on)
        join_lanes(self._tx, self._going_on)
        self._ending, self._going_on = [], []
        if self._arrivals:
            arrive(self._tx, self._arrivals)
            self._arrivals.clear()
        if self._next:
            jobs, sequences = zip(*self._next, strict=True)
            add(self._tx, jobs, sequences)
            self._next.clear()


def add_history(tx: Transaction, job: str, attempts: Sequence[Attempt]) -> None:
    """Keep the attempts that the job had in another store."""
    rows = [attempt_row(job, each, each.ended_at) for each in attempts]
    tx.db.executemany(_ADD_ATTEMPT, rows)
