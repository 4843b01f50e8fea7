"""A transaction: one operation on the database at one instant, and who is to be woken after it.

Here is also what operations share: how jobs that have ended leave the tables `running` and `ended`,
and the user's work of a transactional sink, which
runs on the store's connection, inside its transaction.
"""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from inspect import iscoroutine
from typing import Any, NamedTuple, TypeVar

from mulligan.core.checks import rounded
from mulligan.core.errors import (
    UNREADABLE,
    InvalidError,
    MulliganError,
    StoreDamagedError,
    StoreError,
)
from mulligan.core.job import first_token
from mulligan.core.lane import Lane
from mulligan.stores.sqlite.fields import as_json
from mulligan.stores.sqlite.statements import load

T = TypeVar("T")
SQL = load("transaction")
_LAST_NUMBER = SQL["last_number"]
_RESERVE = SQL["reserve"]
_KEEP_NUMBER = SQL["keep_number"]
_ANYONE_ASLEEP = SQL["anyone_asleep"]
_NEXT_EPOCH = SQL["next_epoch"]
_LEAVE_RUNNING = SQL["leave_running"]
_ANY_UNIQUE_KEY = SQL["any_unique_key"]
_FREE_UNIQUE_KEYS = SQL["free_unique_keys"]
_RENEW = SQL["renew"]
_RENEW_RUNNING = SQL["renew_running"]

WHOSE = "the transaction is the store's, which commits it with the outcome"


# What code raises that reads something else than it has written.
NOT_OURS = (TypeError, LookupError, AttributeError, *UNREADABLE)
log = logging.getLogger("mulligan.store")


def run_work(call: Callable[["Transaction"], T], tx: "Transaction", path: str) -> T:
    """Do an operation; raises StoreDamagedError where the tables hold what they should not."""
    try:
        return call(tx)
    except MulliganError:
        raise
    except NOT_OURS as error:
        log.debug("%s: the operation failed", path, exc_info=True)
        raise StoreDamagedError(
            f"{path} contains what mulligan did not write ({type(error).__name__}: {error});"
            " restore it from a backup, or move its jobs to a new file: mulligan copy"
        ) from error


class WorkError(Exception):
    """The work raised: `error` is what it raised, for whoever asked for the work."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


class StoreConnection(sqlite3.Connection):
    """A connection that cannot be closed while the user's work has it."""

    is_lent = False

    def close(self) -> None:
        """Let go of the file."""
        if self.is_lent:
            raise InvalidError(f"the work must not close the connection: {WHOSE}")
        super().close()


def run_in_transaction(db: StoreConnection, work: Callable[[Any], Any]) -> None:
    """Have the work done on the connection, and see that the transaction is still open."""
    refused: list[str | None] = []

    def keep_open(action: int, name: str | None, *_: str | None) -> int:
        if action != sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_OK
        refused.append(name)
        return sqlite3.SQLITE_DENY

    db.is_lent = True
    db.set_authorizer(keep_open)
    returned, error = None, None
    try:
        returned = work(db)
    except BaseException as raised:  # noqa: BLE001 - belongs to whoever asked, whatever it is
        error = raised
    finally:
        db.set_authorizer(None)
        db.is_lent = False
        db.row_factory, db.text_factory = None, str
    if refused:
        # Also if it went on regardless: what it meant to undo is not undone.
        raise InvalidError(f"the work must not {refused[0]} by itself: {WHOSE}") from error
    if error is not None:
        raise WorkError(error) from error
    if iscoroutine(returned):
        returned.close()
        raise InvalidError("the work must be a plain function: it runs on the store's thread")
    if not db.in_transaction:
        raise InvalidError(f"the work ended the transaction, so nothing was written: {WHOSE}")


class WakeUp(NamedTuple):
    """A sleeper to be woken, at which socket, and what for: a job in a lane, or a free permit."""

    worker: str
    socket: str | None
    joined: tuple[Lane, float] | None = None
    freed: str | None = None


class Ended(NamedTuple):
    """Jobs that have ended, by number: whoever waits for them is to be told."""

    numbers: list[int]


class Transaction:
    """The connection inside a transaction, the time of it, and what it does that may wake others.

    `joined` lists the lanes that jobs joined, with their due times; `freed` the keys of limits that
    got a permit back; `ended` the jobs that ended; `wakes_all` is set when facts changed. The
    `claimant` is not woken. `wakeups` are the sleepers that were picked.
    """

    __slots__ = (
        "_anyone",
        "claimant",
        "db",
        "ended",
        "freed",
        "joined",
        "now",
        "wakes_all",
        "wakeups",
    )

    def __init__(self, db: StoreConnection, now: float) -> None:
        self.db = db
        self.now = now
        self.joined: list[tuple[Lane, float]] = []
        self.freed: list[str] = []
        self.ended: list[int] = []
        self.wakes_all = False
        self.claimant: str | None = None
        self.wakeups: list[WakeUp] = []
        self._anyone: int | None = None

    def next_number(self) -> int:
        """The first of any number of new sequence numbers for jobs that are stored with them.

        Nothing is written: the jobs themselves say that their numbers are taken.
        """
        last: int
        last, self._anyone = self.db.execute(_LAST_NUMBER).fetchone()
        return last + 1

    def keep_number(self, number: int) -> None:
        """Have a number not given again that came from `next_number`, and is no job's."""
        self.db.execute(_KEEP_NUMBER, (number,))

    def reserve(self, count: int) -> int:
        """The first of `count` new sequence numbers; those of jobs that are there are kept too."""
        last: int = self.db.execute(_RESERVE, (count,)).fetchone()[0]
        return last - count + 1

    def due(self, delay: float) -> float:
        """When a job falls due that joins a lane with this delay."""
        return rounded(self.now + delay) if delay else self.now

    @property
    def anyone_asleep(self) -> bool:
        """Whether anyone could be woken; asked once."""
        if self._anyone is None:
            self._anyone = self.db.execute(_ANYONE_ASLEEP).fetchone()[0]
        return bool(self._anyone)

    def join(self, lane: Lane, due: float) -> None:
        """Note that a job joined the lane."""
        self.joined.append((lane, due))

    def change_facts(self) -> None:
        """Refuse plans made before from now on, and let every sleeper make a new one."""
        self.db.execute(_NEXT_EPOCH)
        self.wakes_all = True


def stop_running(tx: Transaction, numbers: Sequence[int]) -> None:
    """Take back the leases of these jobs."""
    if numbers:
        tx.db.execute(_LEAVE_RUNNING, (as_json(numbers),))


def close(tx: Transaction, numbers: Sequence[int]) -> None:
    """Jobs that have ended run no more, and others may have their unique keys."""
    stop_running(tx, numbers)
    tx.ended += numbers
    if numbers and tx.db.execute(_ANY_UNIQUE_KEY).fetchone()[0]:
        tx.db.execute(_FREE_UNIQUE_KEYS, (as_json(numbers), tx.now))


def has_no_next(error: StoreError) -> bool:
    """Whether the operation failed because a token cannot be counted up."""
    return "cannot store REAL value in INTEGER column" in str(error) and ".token" in str(error)


def renew(tx: Transaction) -> None:
    """Give each job whose token is the last number there is a new one, as if its life began now.

    Only another program sets such a token: nothing comes after it. The new one is above all that
    the job has had.
    """
    token = first_token(tx.reserve(1))
    tx.db.execute(_RENEW, (token,))
    tx.db.execute(_RENEW_RUNNING, (token,))
