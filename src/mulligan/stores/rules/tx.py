"""What a rule asks of a store, within one transaction."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from mulligan.core.job import Attempt
from mulligan.core.limits import Limit
from mulligan.core.record import Record
from mulligan.stores.rules.consequence import Consequence
from mulligan.stores.rules.row import Row

T = TypeVar("T")
# A job and the key of one of its records.
RecordKey = tuple[str, str]


class Tx(Protocol):
    """Reads are awaited. Writes are collected in order, and carried out as a whole or not at all.

    A rule reads a row once: the same id gives the same object, with the changes of the rule. A
    store must provide every field of a row that a rule, of this or of a later transaction, reads.

    A rule writes the rows that it is about (guarded: they are written only if they are still as
    they were read), and states consequences for other jobs with `then`.
    """

    now: float
    new: type[Row]

    # -- read -----------------------------------------------------------------------------------

    async def jobs(self, ids: Sequence[str]) -> list[Row | None]:
        """Return the jobs, None for each unknown id."""

    async def job(self, id_: str | None) -> Row | None:
        """Return one job."""

    async def holders(self, keys: Sequence[tuple[str, str]]) -> list[Row | None]:
        """Return the jobs registered for these (queue, unique key), whether they hold it or not."""

    async def holder(self, queue: str, key: str) -> Row | None:
        """Return one of them."""

    async def arrived(self, row: Row, index: int) -> tuple[bytes | None] | None:
        """Return what has arrived at this place of the gathering job, None if nothing has."""

    async def last_failure(self, row: Row) -> str | None:
        """Return the reason of the job's last failed attempt."""

    async def recorded(self, keys: Sequence[RecordKey]) -> dict[RecordKey, tuple[int, int]]:
        """Return the orders of the records stored under these keys."""

    async def schedule(self, name: str) -> bytes | None:
        """Return the record of a schedule."""

    async def limit_of(self, name: str) -> Limit | None:
        """Return the settings that apply to the limit's name."""

    # -- write the job's row --------------------------------------------------------------------

    def insert(self, row: Row) -> None:
        """Store a new job."""

    def update(self, row: Row) -> None:
        """Store the changes of a job that stays in its place."""

    def enter(self, row: Row) -> None:
        """Store a pending job in its lane or line, and wake a sleeping worker for it."""

    def leave(self, row: Row) -> None:
        """Take a pending job out of its lane or line. Called before the rule changes the row."""

    def end(self, row: Row) -> None:
        """Store an ended job, and notify its watchers."""

    def delete(self, row: Row) -> None:
        """Delete an ended job with its history, arrivals and records."""

    def take_key(self, row: Row) -> None:
        """Register the job for its unique key."""

    def free_key(self, row: Row) -> None:
        """Remove that registration, if there is one."""

    # -- write beside the row, under its guard --------------------------------------------------

    def add_history(self, row: Row, attempts: Sequence[Attempt]) -> None:
        """Add attempts to the job's history. The store keeps the newest."""

    def put_record(self, row: Row, record: Record) -> None:
        """Store a record of the job under its key."""

    def trim_log(self, row: Row) -> None:
        """Delete all but the newest lines of the job's log."""

    def delete_records(self, row: Row) -> None:
        """Delete the job's records except its log."""

    def add_arrival(self, row: Row, index: int, value: bytes | None) -> None:
        """Store what has arrived at this place of the gathering job."""

    def delete_arrival(self, row: Row, index: int) -> None:
        """Delete what had arrived there."""

    def put_schedule(self, name: str, record: bytes | None) -> None:
        """Store the record of a schedule; None deletes it."""

    # -- commutative writes, without a guard ----------------------------------------------------

    def next_sequence(self) -> int:
        """Return a number higher than all before it."""

    def release(self, row: Row, *, refunded: bool = False) -> None:
        """Free the permits of a job that was running; `refunded` also returns their cost."""

    def spend(self, name: str, cost: int) -> None:
        """Charge a limit."""

    def pause(self, name: str, until: float) -> None:
        """Pause a limit at least until then."""

    def change_facts(self) -> None:
        """Invalidate the plans made so far, and wake every sleeping worker."""

    # -- other jobs -----------------------------------------------------------------------------

    async def then(self, consequence: Consequence) -> None:
        """Carry out a consequence for another job, in this step or right after it.

        A consequence may be carried out twice: the second time changes nothing.
        """
