"""What rules read and write (`stores/rules`), in a transaction of this store.

`RowWriter` collects writes. Lines are the exception: `core/lines.py` reads their tables itself, so
changes to lines are written before the next change that depends on them.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeVar

from mulligan.core.at_once import at_once
from mulligan.core.job import Attempt
from mulligan.core.limits import Limit
from mulligan.core.record import Record
from mulligan.core.settings import HISTORY_LIMIT, LOG_LIMIT
from mulligan.stores.rules.carry_out import carry_out
from mulligan.stores.rules.consequence import Consequence
from mulligan.stores.rules.row import Row
from mulligan.stores.rules.store import Rule
from mulligan.stores.rules.tx import RecordKey
from mulligan.stores.sqlite.fields import as_json, attempt_row, listed
from mulligan.stores.sqlite.limits import Held, release
from mulligan.stores.sqlite.lines import LineBook
from mulligan.stores.sqlite.row_columns import EXPRESSIONS, READ, stored, table_of
from mulligan.stores.sqlite.row_writer import (
    ADD_ARRIVAL,
    ADD_ATTEMPT,
    PUT_RECORD,
    TRIM_ATTEMPTS,
    TRIM_LOG,
    RowWriter,
)
from mulligan.stores.sqlite.stand import leave_line
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

T = TypeVar("T")
SQL = load("rows", row=listed([EXPRESSIONS.get(name, f"job.{name}") for name in READ]))
_READ = SQL["read"]
_HOLDERS = SQL["holders"]
_ARRIVED = SQL["arrived"]
_LAST_FAILURE = SQL["last_failure"]
_RECORDED = SQL["recorded"]
_SCHEDULE = SQL["schedule"]
_DELETE = SQL["delete"]
_DELETE_ATTEMPTS = SQL["delete_attempts"]
_DELETE_ARRIVALS = SQL["delete_arrivals"]
_DELETE_ALL_RECORDS = SQL["delete_all_records"]
_DELETE_ENDED = SQL["delete_ended"]
_DELETE_ARRIVAL = SQL["delete_arrival"]
_DELETE_RECORDS = SQL["delete_records"]
_PUT_SCHEDULE = SQL["put_schedule"]
_DELETE_SCHEDULE = SQL["delete_schedule"]


def apply(tx: Transaction, rule: Rule[T], *args: Any, **options: Any) -> T:
    """Run a rule in this transaction."""
    rows = Rows(tx)
    answer = at_once(rule(rows, *args, **options))
    rows.flush()
    return answer


class Rows:
    """A transaction, as `stores/rules/tx.py` defines it."""

    new: type[Row] = Row

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.now = tx.now
        self._rows: dict[str, Row | None] = {}
        self._holders: dict[tuple[str, str], str | None] = {}
        self._arrived: dict[tuple[str, int], tuple[bytes | None]] = {}
        self._writer = RowWriter(tx)
        self._released: list[Held] = []
        # Whether a job enters a line, and whether a release may let jobs of other lines start.
        self._lines = self._frees = False
        self._last: int | None = None

    # -- read ------------------------------------------------------------------------------------

    async def jobs(self, ids: Sequence[str]) -> list[Row | None]:
        rows = self._rows
        missing = [each for each in ids if each not in rows]
        if missing:
            rows.update(dict.fromkeys(missing))
            for values in self._tx.db.execute(_READ, (as_json(missing),)):
                row = Row(*values)
                row.kept = values
                rows[row.id] = row
        return [rows[each] for each in ids]

    async def job(self, id_: str | None) -> Row | None:
        if id_ not in self._rows:
            return (await self.jobs([id_]))[0] if id_ is not None else None
        return self._rows[id_]

    async def holders(self, keys: Sequence[tuple[str, str]]) -> list[Row | None]:
        missing: dict[str, list[str]] = defaultdict(list)
        for queue, key in keys:
            if (queue, key) not in self._holders:
                self._holders[queue, key] = None
                missing[queue].append(key)
        found = []
        for queue, several in missing.items():
            for key, id_ in self._tx.db.execute(_HOLDERS, (queue, as_json(several))).fetchall():
                self._holders[queue, key] = id_
                found.append(id_)
        await self.jobs(found)
        return [await self.job(self._holders[key]) for key in keys]

    async def holder(self, queue: str, key: str) -> Row | None:
        if (queue, key) not in self._holders:
            await self.holders([(queue, key)])
        return await self.job(self._holders[queue, key])

    async def arrived(self, row: Row, index: int) -> tuple[bytes | None] | None:
        found: tuple[bytes | None] | None
        found = self._arrived.get((row.id, index))
        return found or self._tx.db.execute(_ARRIVED, (row.id, index)).fetchone()

    async def last_failure(self, row: Row) -> str | None:
        self.flush()
        found = self._tx.db.execute(_LAST_FAILURE, (row.id,)).fetchone()
        return None if found is None else found[0]

    async def recorded(self, keys: Sequence[RecordKey]) -> dict[RecordKey, tuple[int, int]]:
        found = self._tx.db.execute(_RECORDED, (as_json(keys),))
        return {(job, key): (token, number) for job, key, token, number in found}

    async def schedule(self, name: str) -> bytes | None:
        found = self._tx.db.execute(_SCHEDULE, (name,)).fetchone()
        return None if found is None else found[0].encode()

    async def limit_of(self, name: str) -> Limit | None:
        return LineBook(self._tx).limit_of(name)

    # -- write -----------------------------------------------------------------------------------

    def next_sequence(self) -> int:
        if self._last is None:
            self._last = self._tx.next_number() - 1
        self._last += 1
        return self._last

    def insert(self, row: Row) -> None:
        self._rows[row.id] = row
        self._writer.change(row)

    def update(self, row: Row) -> None:
        self._writer.change(row)

    def enter(self, row: Row) -> None:
        if table_of(row) == "line":
            if self._frees:  # that lets other lines go on first
                self.flush()
            self._lines = True
        self._writer.change(row)

    def leave(self, row: Row) -> None:
        if row.kept is not None and stored(row.kept).table == "line":
            self.flush()
            leave_line(self._tx, row.number)
            row.kept = stored(row.kept)._replace(table="none")

    def end(self, row: Row) -> None:
        self._writer.change(row)

    def delete(self, row: Row) -> None:
        self.flush()
        self._tx.db.execute(_DELETE_ENDED, (row.number,))
        delete(self._tx, [row.number])
        self._rows[row.id] = None

    def release(self, row: Row, *, refunded: bool = False) -> None:
        if row.held is not None:
            if self._lines:  # the job itself, and what follows it, stand in their lines first
                self.flush()
            self._frees = True
        self._released.append(Held(row.id, row.held, row.started_at or self.now, refunded))
        row.held = None

    def spend(self, name: str, cost: int) -> None:
        self.flush()
        LineBook(self._tx).spend(name, cost)

    def pause(self, name: str, until: float) -> None:
        self.flush()
        LineBook(self._tx).pause(name, until, at_least=True)

    def take_key(self, row: Row) -> None:
        row.has_key = True
        self._holders[row.key_queue, row.unique_key or ""] = row.id
        self._writer.change(row)

    def free_key(self, row: Row) -> None:
        if row.has_key:
            row.has_key = False
            self._holders[row.key_queue, row.unique_key or ""] = None
            self._writer.change(row)

    def add_arrival(self, row: Row, index: int, value: bytes | None) -> None:
        self._arrived[row.id, index] = (value,)
        self._writer.write(ADD_ARRIVAL, (row.id, index, value))

    def delete_arrival(self, row: Row, index: int) -> None:
        if self._arrived.pop((row.id, index), None) is not None:
            self.flush()
        self._tx.db.execute(_DELETE_ARRIVAL, (row.id, index))

    def add_history(self, row: Row, attempts: Sequence[Attempt]) -> None:
        for each in attempts:
            self._writer.write(ADD_ATTEMPT, attempt_row(row.id, each, each.ended_at))
        self._writer.write(TRIM_ATTEMPTS, (row.id, row.id, HISTORY_LIMIT))

    def put_record(self, row: Row, record: Record) -> None:
        values = (record.key, record.token, record.number, record.at, record.value or b"")
        self._writer.write(PUT_RECORD, (row.id, *values))

    def trim_log(self, row: Row) -> None:
        self._writer.write(TRIM_LOG, (row.id, row.id, LOG_LIMIT))

    def delete_records(self, row: Row) -> None:
        self._tx.db.execute(_DELETE_RECORDS, (row.id,))

    def put_schedule(self, name: str, record: bytes | None) -> None:
        if record is None:
            self._tx.db.execute(_DELETE_SCHEDULE, (name,))
        else:
            self._tx.db.execute(_PUT_SCHEDULE, (name, record.decode()))

    async def then(self, consequence: Consequence) -> None:
        await carry_out(self, consequence)

    def change_facts(self) -> None:
        self._tx.change_facts()

    def flush(self) -> None:
        """Write what was collected, then free the permits of the jobs that were written."""
        self._writer.flush(self._last)
        self._lines = self._frees = False
        if self._released:
            released, self._released = self._released, []
            release(self._tx, released)


def delete(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete jobs with their history, arrivals and records."""
    if numbers:
        tx.reserve(0)  # so that no other job gets the number of a deleted one
        jobs = as_json([job for (job,) in tx.db.execute(_DELETE, (as_json(numbers),))])
        for statement in (_DELETE_ATTEMPTS, _DELETE_ARRIVALS, _DELETE_ALL_RECORDS):
            tx.db.execute(statement, (jobs,))
