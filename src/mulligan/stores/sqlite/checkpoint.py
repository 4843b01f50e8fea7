"""Checkpoints: a thread copies what the write-ahead log holds into the file, beside the work.

SQLite would do so in the commit that makes the log long, and everyone who wants to write would wait
for it and for the disk. A thread with a connection of its own keeps nobody waiting: it reads the
log and writes the file while others add to the log. The log starts again at its beginning once all
of it is copied. So where the thread has left only a little, whoever writes does the rest.
"""

import os
import threading
from contextlib import suppress
from queue import SimpleQueue
from sqlite3 import Connection, Error, connect
from typing import Literal

from mulligan.stores.sqlite.wal import wal_path

# In pages: every so many the log is copied by the thread; so few are not worth its while;
# with so many the log is too long, and whoever writes waits for the thread, or does the rest.
STEP, LITTLE, LONGEST = 1000, 100, 8000
# Seconds; no checkpoint takes as long, unless its thread has failed.
TIMEOUT = 30.0
# The log, as SQLite documents it: a header, then pages, each after a header of its own. What was
# written since the log was last reset bears the two salts of the header.
HEADER, PAGE_HEADER = 32, 24
PAGE_SIZE = slice(8, 12)
SALTS = slice(16, 24)
PAGE_SALTS_AT, SALTS_LENGTH = 8, 8


class Checkpointer:
    """Looks how long the log is, and has it copied; the thread starts when first needed."""

    def __init__(self, path: str, db: Connection) -> None:
        self._path = path
        self._db = db
        self._wal = os.open(wal_path(path), os.O_RDONLY)
        self._header = b""
        self._copied = 0
        self._idle = threading.Event()
        self._idle.set()
        self._asked: SimpleQueue[Literal["copy", "end"]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Have the log copied where it has grown; asked after each transaction.

        Raises nothing: what was committed is, whatever becomes of the log.
        """
        with suppress(OSError):
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


def checkpoint(db: Connection) -> int:
    """Copy as much as can be, hindering nobody; gives how many pages the log had."""
    try:
        [_, pages, _] = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except Error:  # as SQLite takes it: the log grows, and the next time may go better
        return 0
    return int(pages)
