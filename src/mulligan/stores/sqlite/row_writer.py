"""Writes the rows that a rule has changed: each kind of write is one `executemany`."""

from typing import Any

from mulligan.stores.rules.row import Row
from mulligan.stores.sqlite.fields import ATTEMPT_ROW, as_json, listed, marks
from mulligan.stores.sqlite.row_columns import (
    CHANGED,
    HISTORY,
    NEW,
    NO_HISTORY,
    NO_OPTIONS,
    PLAIN,
    POSITION,
    Stored,
    changed_of,
    decided_of,
    ended_of,
    history_of,
    lane_of,
    new_of,
    options_of,
    plain_of,
    stored,
    table_of,
)
from mulligan.stores.sqlite.stand import stand_in_lines
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction, stop_running

SQL = load(
    "row_writer",
    plain_columns=listed(PLAIN),
    plain_marks=marks(PLAIN),
    new_columns=listed([*NEW, "key_queue"]),
    new_marks=marks([*NEW, "key_queue"]),
    adopted_columns=listed([*NEW, *HISTORY, "key_queue"]),
    adopted_marks=marks([*NEW, *HISTORY, "key_queue"]),
    changed=" = ?, ".join(CHANGED) + " = ?",
    attempt_row=listed(ATTEMPT_ROW),
    attempt_marks=marks(ATTEMPT_ROW),
)
_LEAVE_LANE = SQL["leave_lane"]
_LEAVE_HELD = SQL["leave_held"]
_LEAVE_ENDED = SQL["leave_ended"]
_UPDATE = SQL["update"]
_REPLACE_CALL = SQL["replace_call"]
_FREE_KEY = SQL["free_key"]
_TAKE_KEY = SQL["take_key"]
_INSERT_PLAIN = SQL["insert_plain"]
_INSERT_NEW = SQL["insert_new"]
_INSERT_ADOPTED = SQL["insert_adopted"]
_ENTER_LANE = SQL["enter_lane"]
_END = SQL["end"]
_HOLD = SQL["hold"]
ADD_ARRIVAL = SQL["add_arrival"]
ADD_ATTEMPT = SQL["add_attempt"]
TRIM_ATTEMPTS = SQL["trim_attempts"]
PUT_RECORD = SQL["put_record"]
TRIM_LOG = SQL["trim_log"]
# The order of writes: a row leaves one table before it enters another.
ORDER = (
    *(_LEAVE_LANE, _LEAVE_HELD, _LEAVE_ENDED, _UPDATE, _REPLACE_CALL, _FREE_KEY, _TAKE_KEY),
    *(_INSERT_PLAIN, _INSERT_NEW, _INSERT_ADOPTED, _ENTER_LANE, _END),
    *(ADD_ARRIVAL, ADD_ATTEMPT, TRIM_ATTEMPTS, PUT_RECORD, TRIM_LOG),
)


class RowWriter:
    """Collects changed rows and the writes beside them, until they are flushed."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._changed: dict[int, Row] = {}
        self._written: dict[str, list[tuple[Any, ...]]] = {statement: [] for statement in ORDER}
        self._reserved = 0
        self._stopped: list[int] = []
        self._held: list[int] = []
        self._lined: list[int] = []

    def change(self, row: Row) -> None:
        """Write the row with the next flush."""
        self._changed[row.number] = row

    def write(self, statement: str, values: tuple[Any, ...]) -> None:
        """Run the statement with the next flush."""
        self._written[statement].append(values)

    def flush(self, last: int | None) -> None:
        """Write what was collected. `last` is the last number that the transaction gave out."""
        changed, self._changed = self._changed, {}
        for row in changed.values():
            self._collect(row)
        if last is not None and self._reserved < last:
            if last not in changed:  # else the new row itself shows that the number is taken
                self._tx.keep_number(last)
            self._reserved = last
        for statement, values in self._written.items():
            if values:
                self._tx.db.executemany(statement, values)
                values.clear()
        if self._stopped:
            stop_running(self._tx, self._stopped)
            self._stopped.clear()
        if self._held:
            self._tx.db.execute(_HOLD, (as_json(self._held),))
            self._held.clear()
        if self._lined:
            lined, self._lined = self._lined, []
            stand_in_lines(self._tx, lined)

    def _collect(self, row: Row) -> None:
        table, decided = table_of(row), decided_of(row)
        before = None if row.kept is None else stored(row.kept)
        row.kept = Stored(table, decided, row.has_key)
        if before is None:
            self._enter(row, table, ran=False)
            self._insert(row)
            return
        if not before.is_at(table, decided):
            self._leave(row, before)
            self._enter(row, table, ran=before.table == "running")
        if before.decided != decided or row.status != "done":
            self._written[_UPDATE].append((*changed_of(row), row.number))
        if before.has_key != row.has_key:
            if row.has_key:
                self._written[_TAKE_KEY].append((row.key_queue, row.number))
            else:
                self._written[_FREE_KEY].append((row.number,))
        if row.body is not None:
            self._written[_REPLACE_CALL].append((row.task, row.body, row.number))
            row.body = None

    def _leave(self, row: Row, before: Stored) -> None:
        match before.table:
            case "running":
                self._stopped.append(row.number)
            case "lane":
                position = before.decided[: len(POSITION)]
                self._written[_LEAVE_LANE].append((row.queue, *position))
            case "arrivals":
                self._written[_LEAVE_HELD].append((row.number,))
            case "ended":
                self._written[_LEAVE_ENDED].append((row.number,))

    def _enter(self, row: Row, table: str, *, ran: bool) -> None:
        match table:
            case "ended":
                self._end(row, ran=ran)
            case "lane":
                until = row.expires_at
                if until is not None and row.has_started:
                    until = None
                self._written[_ENTER_LANE].append((*lane_of(row), until))
                if self._tx.anyone_asleep:
                    self._tx.join(row.lane, row.due)
            case "line":
                self._lined.append(row.number)
            case "arrivals":
                self._held.append(row.number)

    def _end(self, row: Row, *, ran: bool) -> None:
        attempt = (row.started_at, row.worker_region) if ran else (None, None)
        until = None
        if row.keep is not None and row.status != "failed":
            until = (row.ended_at or self._tx.now) + row.keep
        values = (*ended_of(row), *attempt, row.result, row.cancel_reason, until)
        self._written[_END].append(values)
        self._tx.ended.append(row.number)

    def _insert(self, row: Row) -> None:
        if history_of(row) != NO_HISTORY:
            self._written[_INSERT_ADOPTED].append((*new_of(row), *history_of(row), key_queue(row)))
        elif options_of(row) == NO_OPTIONS:
            self._written[_INSERT_PLAIN].append(plain_of(row))
        else:
            self._written[_INSERT_NEW].append((*new_of(row), key_queue(row)))
        row.body = None


def key_queue(row: Row) -> str | None:
    """Return the queue in which the job has its unique key, None if it has none now."""
    return row.key_queue if row.has_key else None
