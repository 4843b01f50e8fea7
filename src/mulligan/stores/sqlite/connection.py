"""The connection: how it is opened, how a transaction is run, and what its errors mean."""

import os
import socket
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from mulligan.core.checks import rounded
from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.stores.sqlite.clock import ClockGuard
from mulligan.stores.sqlite.schema import check_library, migrate, version_of
from mulligan.stores.sqlite.transaction import (
    Ended,
    StoreConnection,
    Transaction,
    WakeUp,
    has_no_next,
    renew,
    run_work,
)
from mulligan.stores.sqlite.url import SqliteUrl
from mulligan.stores.sqlite.wakeup import pick
from mulligan.stores.sqlite.wal import Checkpointer, WriteAheadLog

# Longer than any transaction of a store takes: after it another program must be stuck.
LOCK_TIMEOUT = 30.0
FIRST_NAP = 0.0001
LONGEST_NAP = 0.002
# After a second too it is no transaction of a store, and the lock is tried less often.
SOON, LATER_NAP = 1.0, 0.02
STATEMENTS = 256
CACHE_KIB = 16 * 1024
NO_TEXT = "Could not decode to UTF-8"

T = TypeVar("T")
_BUSY = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL"})


class Work(Struct, frozen=True):
    """An operation: what to do inside its transaction, and whether it writes.

    One that is `alone` has its own transaction, and is not repeated because another failed. One
    that is not `durable` is answered before it is on the disk: it says which worker runs what, and
    after a power cut none does.
    """

    call: Callable[[Transaction], Any]
    writes: bool
    alone: bool = False
    durable: bool = False

    @property
    def shares(self) -> bool:
        """Whether it may share a transaction with others."""
        return self.writes and not self.alone


class Reply(Struct, frozen=True):
    """What became of an operation."""

    value: Any
    error: BaseException | None = None


class Connection:
    """One SQLite connection, for one thread at a time."""

    def __init__(
        self, url: SqliteUrl, clock: Callable[[], float], guard: ClockGuard | None = None
    ) -> None:
        self._url = url
        self._clock = clock
        self._guard = guard
        self._db = retry_while_locked(lambda: connect(url), url.path)
        self._version = version_of(self._db)
        self.wal = WriteAheadLog(url.path) if url.is_synced else None
        self._checkpointer = None if url.in_memory else Checkpointer(url.path, self._db)

    def close(self) -> None:
        """Close the file."""
        if self._checkpointer is not None:
            self._checkpointer.close()
        if self.wal is not None:
            self.wal.close()
        self._db.close()

    def run(self, works: Sequence[Work]) -> tuple[list[Reply], list[WakeUp | Ended]]:
        """Do the operations, several in one transaction where that is possible.

        Each is answered on its own: where one fails, the others are done without it.
        """
        try:
            answers, wakeups = self._run_together(works)
        except Exception as error:  # noqa: BLE001 - belongs to the one who asked
            if len(works) == 1:
                return [Reply(None, error)], []
        else:
            return [Reply(answer) for answer in answers], wakeups
        single = [self.run((work,)) for work in works]
        return [reply for [reply], _ in single], [each for _, picked in single for each in picked]

    def transact(self, works: Sequence[Work]) -> tuple[list[Any], list[WakeUp | Ended]]:
        """Do the operations in one transaction; gives their answers and whom to wake.

        Raises what SQLite raises, also that the file is locked, and then nothing is written: `run`
        knows what to do about it.
        """
        db = self._db
        writes = works[0].writes
        guard = self._guard if writes else None
        if guard is not None:
            guard.check(db)
        renewed = False
        answers: list[Any] = []
        wakeups: list[WakeUp | Ended] = []
        db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        try:
            now = rounded(self._clock())
            if guard is not None:
                renewed = guard.write(db, now)
            for work in works:
                tx = Transaction(db, rounded(self._clock()))
                answers.append(run_work(work.call, tx, self._url.path))
                if writes:
                    pick(tx)
                    wakeups += tx.wakeups
                    if tx.ended:
                        wakeups.append(Ended(tx.ended))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        if guard is not None and renewed:
            guard.written(now)
        if writes and self._checkpointer is not None:
            self._checkpointer.look()
        return answers, wakeups

    def _run_together(self, works: Sequence[Work]) -> tuple[list[Any], list[WakeUp | Ended]]:
        try:
            return retry_while_locked(lambda: self.transact(works), self._url.path)
        except StoreError as error:
            if not self._is_repaired(error):
                self._check_version(error)
                raise
        return retry_while_locked(lambda: self.transact(works), self._url.path)

    def _is_repaired(self, error: StoreError) -> bool:
        """Whether it failed because of what another program wrote, and may succeed now."""
        if NO_TEXT in str(error) and self._db.text_factory is str:
            # From now on what is no UTF-8 is read as far as possible.
            self._db.text_factory = decode_leniently
            return True
        if has_no_next(error):
            retry_while_locked(lambda: self.transact([Work(renew, writes=True)]), self._url.path)
            return True
        return False

    def _check_version(self, error: StoreError) -> None:
        """Say so if a newer release has changed the tables since this process opened the file."""
        version = retry_while_locked(lambda: version_of(self._db), self._url.path)
        if version != self._version:
            raise StoreError(
                f"{self._url.path} has now schema version {version}, and process {os.getpid()} on"
                f" {socket.gethostname()} still runs a mulligan that knows version {self._version};"
                " restart this process with the newest release"
            ) from error


def decode_leniently(raw: bytes) -> str:
    """The text, with a mark wherever the bytes are no UTF-8."""
    return raw.decode("utf-8", "replace")


def connect(url: SqliteUrl) -> StoreConnection:
    """Open the file and bring its schema up to date."""
    check_library()
    db = sqlite3.connect(
        url.path,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS,
        factory=StoreConnection,
    )
    try:
        if not url.in_memory:
            use_wal(db, url.path)
            db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        db.execute("PRAGMA temp_store = MEMORY")
        migrate(db, url.path)
    except BaseException:
        db.close()
        raise
    return db


def use_wal(db: sqlite3.Connection, path: str) -> None:
    """Have a write-ahead log kept, on which readers and durability depend."""
    [journal] = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if journal != "wal":
        raise StoreError(f"{path} cannot have a write-ahead log there; keep it on a local disk")


def retry_while_locked(attempt: Callable[[], T], path: str) -> T:
    """Try until no other program locks the file; SQLite itself would sleep too long in between."""
    began = nap = 0.0
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise meaning(error, path) from error
            began = began or time.monotonic()
            waited = time.monotonic() - began
            if waited >= LOCK_TIMEOUT:
                raise meaning(error, path) from error
        except sqlite3.Error as error:
            raise meaning(error, path) from error
        nap = min(LONGEST_NAP if waited < SOON else LATER_NAP, nap * 2 or FIRST_NAP)
        time.sleep(nap)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether it only says that another has the lock."""
    return primary(error) in _BUSY


def primary(error: sqlite3.Error) -> str:
    """The name of the error without its extension: SQLITE_IOERR for SQLITE_IOERR_READ."""
    return "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])


def meaning(error: sqlite3.Error, path: str) -> StoreError:
    """The error in words that say what to do."""
    name = primary(error)
    if name in _BUSY:
        return StoreUnavailableError(f"{path} has been locked by another for {LOCK_TIMEOUT:g} s")
    if name == "SQLITE_CANTOPEN":
        folder = Path(path).parent
        hint = "check its permissions" if folder.is_dir() else f"create the folder {folder}"
        return StoreUnavailableError(f"{path} cannot be opened; {hint}")
    if name == "SQLITE_FULL":
        said = "the disk is full, and nothing was written; make room"
        return StoreUnavailableError(f"{path}: {said}")
    return StoreError(f"{path}{_REMEDIES.get(name, f': {error}')}")


_REMEDIES = {
    "SQLITE_NOTADB": " is not a SQLite database; name another file",
    "SQLITE_CORRUPT": " is damaged; restore it from a backup",
    "SQLITE_READONLY": " cannot be written; check the permissions of the file and its folder",
}
