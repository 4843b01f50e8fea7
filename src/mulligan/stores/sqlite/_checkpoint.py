"""Checkpoints: a thread carries what the log holds over into the file, beside the work.

SQLite would have it done by the commit that makes the log long, and everyone who wants to write
would wait for it and for the disk. A thread with a connection of its own keeps nobody waiting: it
reads the log and writes the file while others add to the log. The log begins anew once all of it
is carried over. So where the thread has left but little, whoever writes does the rest.
"""

import os
import threading
from contextlib import suppress
from queue import SimpleQueue
from sqlite3 import Connection, Error, connect
from typing import Literal

# In pages: every so many the log is carried over by the thread; so few are not worth its while;
# with so many the log is too long, and whoever writes waits for the thread, or does the rest.
STEP, LITTLE, LONGEST = 1000, 100, 8000
# Seconds; no checkpoint takes as long, unless its thread has come to grief.
PATIENCE = 30.0
# The log, as SQLite documents it: a header, then pages, each after a header of its own. What was
# written since the log last began anew bears the two salts of the header.
HEADER, PAGE_HEADER = 32, 24
PAGE_SIZE = slice(8, 12)
SALTS = slice(16, 24)
PAGE_SALTS_AT, SALTS_LENGTH = 8, 8


class Checkpointer:
    """Looks how long the log is, and has it carried over; the thread starts when first needed."""

    def __init__(self, path: str, db: Connection) -> None:
        self._path = path
        self._db = db
        self._log = os.open(f"{os.path.realpath(path)}-wal", os.O_RDONLY)
        self._header = b""
        self._carried = 0
        self._idle = threading.Event()
        self._idle.set()
        self._asked: SimpleQueue[Literal["carry", "end"]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Have the log carried over where it has grown; asked after each transaction.

        Raises nothing: what was committed is, whatever becomes of the log.
        """
        with suppress(OSError):
            self._look()

    def _look(self) -> None:
        before, self._header = self._header, os.pread(self._log, HEADER, 0)
        if self._header[SALTS] != before[SALTS]:
            self._carried = 0
        if self._reaches(LONGEST):
            self._idle.wait(PATIENCE)
            carry_over(self._db)
        elif self._idle.is_set():
            if self._reaches(self._carried + STEP):
                self._ask()
            elif self._carried and not self._reaches(self._carried + LITTLE):
                carry_over(self._db)

    def close(self) -> None:
        """Finish what is under way, and let go."""
        if self._thread is not None:
            self._asked.put("end")
            self._thread.join()
        os.close(self._log)

    def _reaches(self, pages: int) -> bool:
        """Whether the log holds so many pages; its file keeps the size that it once had."""
        last = HEADER + (pages - 1) * (PAGE_HEADER + int.from_bytes(self._header[PAGE_SIZE]))
        salts = os.pread(self._log, SALTS_LENGTH, last + PAGE_SALTS_AT)
        return bool(salts) and salts == self._header[SALTS]

    def _ask(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="mulligan-checkpoint", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there are too many, or the program is about to end
                carry_over(self._db)
                return
            self._thread = thread
        self._idle.clear()
        self._asked.put("carry")

    def _serve(self) -> None:
        db: Connection | None = None
        while self._asked.get() == "carry":
            with suppress(Error):
                db = db or connect(self._path, timeout=0, isolation_level=None)
            pages = 0 if db is None else carry_over(db)
            self._carried = max(self._carried + STEP, pages)
            self._idle.set()
        if db is not None:
            db.close()


def carry_over(db: Connection) -> int:
    """Carry over as much as can be, hindering nobody; gives how many pages the log had."""
    try:
        [_, pages, _] = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except Error:  # as SQLite takes it: the log grows, and the next time may go better
        return 0
    return int(pages)
