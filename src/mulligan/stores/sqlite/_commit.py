"""Commit: each outcome whose lease is still held is written, and each is answered."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from mulligan.core.job import Attempt, NewJob
from mulligan.core.lane import Lane
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Later, Outcome, Returned
from mulligan.core.settings import HISTORY_LIMIT, check_batch
from mulligan.stores.contract import Verdict
from mulligan.stores.sqlite._enqueue import add
from mulligan.stores.sqlite._keys import any_permits, release
from mulligan.stores.sqlite._sql import as_json, load
from mulligan.stores.sqlite._transaction import Transaction

_ROWS = load("commit_rows")
_DONE_IF_HELD = load("commit_done_if_held")
_DONE = load("commit_done")
_ENDED = load("commit_ended")
_PENDING = load("commit_pending")
_RETURNED = load("commit_returned")
_REMEMBER = load("attempt_add")
_TRIM = load("attempt_trim")


def commit(tx: Transaction, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Write the outcomes in order, and say what became of each."""
    check_batch(len(outcomes))
    if written_at_once(tx, outcomes):
        return ["written"] * len(outcomes)
    batch = Batch(tx, outcomes)
    verdicts = [batch.add(outcome) for outcome in outcomes]
    batch.flush()
    release(tx, batch.written)
    return verdicts


def written_at_once(tx: Transaction, outcomes: Sequence[Outcome]) -> bool:
    """The common case, in one statement: all done, all leases held, no permits anywhere."""
    dones = [o for o in outcomes if type(o) is Done and not o.next]
    if not dones or len(dones) < len(outcomes) or any_permits(tx):
        return False
    try:
        rows = [(*o.lease, None if o.result is None else o.result.decode()) for o in dones]
    except UnicodeDecodeError:  # no JSON, but kept as it is
        return False
    tx.db.execute("SAVEPOINT at_once")
    whole = tx.db.execute(_DONE_IF_HELD, (tx.now, as_json(rows))).rowcount == len(rows)
    if not whole:
        tx.db.execute("ROLLBACK TO at_once")
    tx.db.execute("RELEASE at_once")
    return whole


class Batch:
    """Outcomes of mixed kinds, gathered by statement and written together."""

    def __init__(self, tx: Transaction, outcomes: Sequence[Outcome]) -> None:
        self._tx = tx
        ids = as_json([outcome.lease.job for outcome in outcomes])
        self._rows = {row[0]: list(row) for row in tx.db.execute(_ROWS, (ids,))}
        needed = sum(
            len(o.next) if isinstance(o, Done | Dead) else isinstance(o, Again | Later)
            for o in outcomes
        )
        self._sequence = count(tx.reserve(needed) if needed else 0)
        self.written: list[tuple[str, str | None]] = []
        self._writes: dict[str, list[tuple[Any, ...]]] = {
            statement: [] for statement in (_DONE, _ENDED, _PENDING, _RETURNED, _REMEMBER, _TRIM)
        }
        self._next: list[tuple[NewJob, int]] = []

    def add(self, outcome: Outcome) -> Verdict:
        """Gather what the outcome changes, if its lease is held."""
        job, token = outcome.lease
        row = self._rows.get(job)
        if row is None:
            return "stale"
        _, place, current, committed, runs, key, *lane, due = row
        if current != token or not runs:
            return "already" if committed == token else "stale"
        row[3], row[4] = token, False
        self.written.append((job, key))
        self._gather(outcome, place, Lane(*lane), due)
        return "written"

    def _gather(self, outcome: Outcome, place: int, lane: Lane, due: float) -> None:
        now = self._tx.now
        match outcome:
            case Done(_, result, following):
                self._writes[_DONE].append((result, now, place))
                self._follow(following)
            case Dead(lease, failure, following):
                self._remember(lease.job, failure)
                self._writes[_ENDED].append(("failed", None, now, place))
                self._follow(following)
            case Cancelled(_, reason):
                self._writes[_ENDED].append(("cancelled", reason, now, place))
            case Again(lease, lane, delay, failure):
                self._remember(lease.job, failure)
                self._put(place, lane, delay, retries=1)
            case Later(_, delay):
                self._put(place, lane, delay, snoozes=1)
            case Returned():
                self._writes[_RETURNED].append((place,))
                self._tx.join(lane, due)

    def _put(
        self, place: int, lane: Lane, delay: float, retries: int = 0, snoozes: int = 0
    ) -> None:
        due = self._tx.due(delay)
        _, scope, priority = lane
        self._writes[_PENDING].append(
            (
                scope,
                priority,
                due,
                next(self._sequence),
                due > self._tx.now,
                retries,
                snoozes,
                place,
            )
        )
        self._tx.join(lane, due)

    def _remember(self, job: str, failure: Attempt) -> None:
        self._writes[_REMEMBER].append(attempt_row(job, failure, self._tx.now))
        self._writes[_TRIM].append((job, HISTORY_LIMIT))

    def _follow(self, following: tuple[NewJob, ...]) -> None:
        if not following:
            return
        self._next += [(job, next(self._sequence)) for job in following]
        if any(job.unique_key is not None for job in following):
            # Whether the key is free depends on the outcomes before this one, and on no later one.
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        for statement, rows in self._writes.items():
            if rows:
                self._tx.db.executemany(statement, rows)
                rows.clear()
        if self._next:
            jobs, sequences = zip(*self._next, strict=True)
            add(self._tx, jobs, sequences)
            self._next.clear()


def attempt_row(job: str, failure: Attempt, ended_at: float | None) -> tuple[Any, ...]:
    """The attempt as the table keeps it."""
    return (
        job,
        failure.number,
        failure.replay,
        failure.region,
        failure.worker,
        failure.started_at,
        ended_at,
        failure.type,
        failure.message,
        failure.code,
        failure.delay,
        failure.refused,
    )
