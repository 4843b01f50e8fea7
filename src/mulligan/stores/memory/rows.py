"""What rules read and write in memory. Every write takes effect at once."""

from collections.abc import Sequence
from heapq import heappush
from typing import Any, TypeVar, cast

from mulligan.core.at_once import at_once
from mulligan.core.job import Attempt
from mulligan.core.limits import Limit, costs_of
from mulligan.core.lines import First, joined, left, opened
from mulligan.core.record import LOG, Record
from mulligan.core.settings import HISTORY_LIMIT, LOG_LIMIT
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.state import State
from mulligan.stores.rules.carry_out import carry_out
from mulligan.stores.rules.consequence import Consequence
from mulligan.stores.rules.row import Row
from mulligan.stores.rules.store import Rule
from mulligan.stores.rules.tx import RecordKey

T = TypeVar("T")
# The sequence of a job that is in no lane.
NO_LANE = -1


def apply(state: State, rule: Rule[T], *args: Any, **options: Any) -> T:
    """Run a rule, at one instant."""
    with state.lock:
        state.tick()
        return at_once(rule(Rows(state), *args, **options))


class Rows:
    """A transaction, as `stores/rules/tx.py` defines it."""

    new: type[Row] = StoredJob

    def __init__(self, state: State) -> None:
        self._state = state
        self.now = state.now
        self.next_sequence = state.next_sequence

    async def jobs(self, ids: Sequence[str]) -> list[Row | None]:
        return [self._state.jobs.get(each) for each in ids]

    async def job(self, id_: str | None) -> Row | None:
        return self._state.jobs.get(id_ or "")

    async def holders(self, keys: Sequence[tuple[str, str]]) -> list[Row | None]:
        return [self._state.jobs.get(self._state.unique.get(key, "")) for key in keys]

    async def holder(self, queue: str, key: str) -> Row | None:
        return self._state.jobs.get(self._state.unique.get((queue, key), ""))

    async def arrived(self, row: Row, index: int) -> tuple[bytes | None] | None:
        arrived = of(row).arrived
        return (arrived[index],) if index in arrived else None

    async def last_failure(self, row: Row) -> str | None:
        return of(row).last_failure_reason

    async def recorded(self, keys: Sequence[RecordKey]) -> dict[RecordKey, tuple[int, int]]:
        jobs = self._state.jobs
        return {
            (job, key): jobs[job].records[key].order
            for job, key in keys
            if job in jobs and key in jobs[job].records
        }

    async def schedule(self, name: str) -> bytes | None:
        return self._state.schedules.get(name)

    async def limit_of(self, name: str) -> Limit | None:
        return self._state.limits.limit_of(name)

    def insert(self, row: Row) -> None:
        self._state.jobs[row.id] = of(row)
        if row.awaits:
            self._watch_expiry(row)

    def update(self, row: Row) -> None:
        """The row itself is stored, and so has its changes already."""

    def enter(self, row: Row) -> None:
        state, stored, line = self._state, of(row), row.line
        state.running.pop(row.id, None)
        self._watch_expiry(row)
        if line is None:
            heappush(state.lanes.heaps[row.lane], (row.due, row.sequence, stored))
            state.sleepers.wake_for_job(row.lane, row.due)
        else:
            state.lines.add(line, stored)
            joined(state.lines, line, First(row.due, row.sequence, costs_of(row.limits)))

    def _watch_expiry(self, row: Row) -> None:
        if row.expires_at is not None and not row.has_started:
            number = self._state.next_sequence()
            heappush(self._state.expiring, (row.expires_at, number, of(row)))

    def leave(self, row: Row) -> None:
        line, stood = row.line, row.sequence
        row.sequence = NO_LANE
        if line is not None and not row.awaits:
            left(self._state.lines, line, stood)
        row.sequence = stood

    def end(self, row: Row) -> None:
        state, stored = self._state, of(row)
        state.running.pop(row.id, None)
        if row.keep is None or row.status == "failed":
            state.ended.append((self.now, stored))
        else:
            heappush(state.kept, (self.now + row.keep, row.number, self.now, stored))
        if state.watches:
            state.watches.tell((row.id,))

    def delete(self, row: Row) -> None:
        del self._state.jobs[row.id]

    def release(self, row: Row, *, refunded: bool = False) -> None:
        state, stored = self._state, of(row)
        if stored.permits:
            for permit in state.limits.free(stored):
                state.sleepers.wake_for_limit(permit)
        if row.held is not None:
            for name in state.limits.end(stored, self.now, refunded=refunded):
                opened(state.lines, name)

    def spend(self, name: str, cost: int) -> None:
        self._state.limits.spend(name, cost, self.now)

    def pause(self, name: str, until: float) -> None:
        self._state.limits.pause(name, until, at_least=True)

    def take_key(self, row: Row) -> None:
        row.has_key = True
        self._state.unique[row.key_queue, row.unique_key or ""] = row.id

    def free_key(self, row: Row) -> None:
        if row.has_key:
            row.has_key = False
            del self._state.unique[row.key_queue, row.unique_key or ""]

    def add_arrival(self, row: Row, index: int, value: bytes | None) -> None:
        of(row).arrived[index] = value

    def delete_arrival(self, row: Row, index: int) -> None:
        del of(row).arrived[index]

    def add_history(self, row: Row, attempts: Sequence[Attempt]) -> None:
        history = of(row).history
        history += attempts
        del history[:-HISTORY_LIMIT]

    def put_record(self, row: Row, record: Record) -> None:
        of(row).records[record.key] = record

    def trim_log(self, row: Row) -> None:
        records = of(row).records
        for key in sorted(key for key in records if key.startswith(LOG))[:-LOG_LIMIT]:
            del records[key]

    def delete_records(self, row: Row) -> None:
        stored = of(row)
        stored.records = {k: each for k, each in stored.records.items() if k.startswith(LOG)}

    def put_schedule(self, name: str, record: bytes | None) -> None:
        if record is None:
            self._state.schedules.pop(name, None)
        else:
            self._state.schedules[name] = record

    async def then(self, consequence: Consequence) -> None:
        await carry_out(self, consequence)

    def change_facts(self) -> None:
        self._state.change_facts()


def of(row: Row) -> StoredJob:
    """Return the row as the type that this store keeps."""
    return cast("StoredJob", row)
