"""The write-ahead log: how it reaches the disk, and how it is copied into the file.

SQLite would wait for the disk with the file locked, and every other process with it. So it commits
without waiting (`synchronous = NORMAL`), and whoever is promised durability is answered after the
log was synced, with nothing locked; one wait serves all that were written before it. The log keeps
the order of commits: what is on the disk is all up to some commit, and nothing of a later one.

SQLite would copy the log into the file (a checkpoint) in the commit that makes the log long, and
everyone who wants to write would wait for it and for the disk. A thread with a connection of its
own keeps nobody waiting: it reads the log and writes the file while others add to the log. The log
starts again at its beginning once all of it is copied. So where the thread has left only a little,
whoever writes does the rest.
"""

import errno
import os
import threading
from contextlib import closing, suppress
from queue import SimpleQueue
from sqlite3 import Connection, Error, connect
from typing import Literal

from mulligan.core.errors import StoreUnavailableError

sync_file = getattr(os, "fdatasync", os.fsync)
# In pages: every so many the log is copied by the thread; so few are not worth its while;
# with so many the log is too long, and whoever writes waits for the thread, or does the rest.
STEP, LITTLE, LONGEST = 1000, 100, 8000
# In rows: after fewer changes the log is not looked at. They rarely fill so many pages.
FEW = 32
# Seconds; no checkpoint takes as long, unless its thread has failed.
TIMEOUT = 30.0
# How long the log may be in use by others before it is tried again to empty it.
EMPTY_WITHIN = 1.0
# The log, as SQLite documents it: a header, then pages, each after a header of its own. What was
# written since the log was last reset bears the two salts of the header.
HEADER, PAGE_HEADER = 32, 24
PAGE_SIZE = slice(8, 12)
SALTS = slice(16, 24)
PAGE_SALTS_AT, SALTS_LENGTH = 8, 8


class WriteAheadLog:
    """The log of a database that is open; any thread may wait for it.

    Systems forget what they could not write, and the next wait ends well without it: the log then
    has a gap on the disk, and is not read past it after a power cut. So after a failure the log is
    first copied into the file and emptied.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(wal_path(path), os.O_RDWR)
        self._failed = False

    def sync(self) -> None:
        """Wait until everything that has been committed is on the disk."""
        try:
            if self._failed:
                empty_log(self._path)
            sync_file(self._file)
        except (OSError, Error) as error:
            self._failed = True
            raise StoreUnavailableError(
                f"{wal_path(self._path)}: the disk failed ({error}), and what was written since may"
                " be lost when the power goes; check the disk"
            ) from error
        self._failed = False

    def close(self) -> None:
        """Let go."""
        os.close(self._file)


def wal_path(path: str) -> str:
    """Where SQLite keeps the log of this database: beside the file itself, not beside a link."""
    return f"{os.path.realpath(path)}-wal"


class Checkpointer:
    """Looks how long the log is, and has it copied; the thread starts when first needed."""

    def __init__(self, path: str, db: Connection) -> None:
        self._path = path
        self._db = db
        self._wal = os.open(wal_path(path), os.O_RDONLY)
        self._header = b""
        self._copied = 0
        self._changes = 0
        self._idle = threading.Event()
        self._idle.set()
        self._asked: SimpleQueue[Literal["copy", "end"]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Have the log copied where it has grown; asked after each transaction.

        Raises nothing: what was committed is, whatever becomes of the log.
        """
        changes = self._db.total_changes
        if changes - self._changes >= FEW:
            self._changes = changes
            with suppress(OSError, Error):
                self._look()

    def _look(self) -> None:
        before, self._header = self._header, os.pread(self._wal, HEADER, 0)
        if self._header[SALTS] != before[SALTS]:
            self._copied = 0
        if self._reaches(LONGEST):
            self._idle.wait(TIMEOUT)
            checkpoint(self._db)
        elif self._idle.is_set():
            if self._reaches(self._copied + STEP):
                self._ask()
            elif self._copied and not self._reaches(self._copied + LITTLE):
                checkpoint(self._db)

    def close(self) -> None:
        """Finish what is under way, and let go."""
        if self._thread is not None:
            self._asked.put("end")
            self._thread.join()
        os.close(self._wal)

    def _reaches(self, pages: int) -> bool:
        """Whether the log holds so many pages; its file keeps the size that it once had."""
        last = HEADER + (pages - 1) * (PAGE_HEADER + int.from_bytes(self._header[PAGE_SIZE]))
        salts = os.pread(self._wal, SALTS_LENGTH, last + PAGE_SALTS_AT)
        return bool(salts) and salts == self._header[SALTS]

    def _ask(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="mulligan-checkpoint", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there are too many, or the program is about to end
                checkpoint(self._db)
                return
            self._thread = thread
        self._idle.clear()
        self._asked.put("copy")

    def _serve(self) -> None:
        db: Connection | None = None
        while self._asked.get() == "copy":
            with suppress(Error):
                db = db or connect(self._path, timeout=0, isolation_level=None)
            pages = 0 if db is None else checkpoint(db)
            self._copied = max(self._copied + STEP, pages)
            self._idle.set()
        if db is not None:
            db.close()


def empty_log(path: str) -> None:
    """Copy the whole log into the file and empty it; raises what keeps it from being done."""
    with closing(connect(path, timeout=EMPTY_WITHIN, isolation_level=None)) as db:
        [is_busy, *_] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise OSError(errno.EBUSY, "others read the log, which cannot be emptied yet")


def checkpoint(db: Connection) -> int:
    """Copy as much as can be, hindering nobody; gives how many pages the log had."""
    try:
        [_, pages, _] = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except Error:  # as SQLite takes it: the log grows, and the next time may go better
        return 0
    return int(pages)
