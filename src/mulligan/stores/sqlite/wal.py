"""The write-ahead log on the disk.

SQLite would wait for the disk with the file locked, and every other process with it. So it commits
without waiting (`synchronous = NORMAL`), and whoever is promised durability is answered after the
log was synced, with nothing locked; one wait serves all that were written before it. The log keeps
the order of commits: what is on the disk is all up to some commit, and nothing of a later one.
"""

import os

from mulligan.core.errors import StoreError

sync_file = getattr(os, "fdatasync", os.fsync)


class WriteAheadLog:
    """The log of a database that is open; any thread may wait for it.

    After a failure nothing more is said to be on the disk: systems forget what they could not
    write, and the next wait would end well without it.
    """

    def __init__(self, path: str) -> None:
        self._path = wal_path(path)
        self._file = os.open(self._path, os.O_RDWR)
        self._failed: OSError | None = None

    def sync(self) -> None:
        """Wait until everything that has been committed is on the disk."""
        try:
            if self._failed is None:
                sync_file(self._file)
        except OSError as error:
            self._failed = error
        if self._failed is not None:
            raise StoreError(
                f"{self._path}: the disk failed ({self._failed}), and what was written since may be"
                " lost when the power goes; check the disk and restart"
            ) from self._failed

    def close(self) -> None:
        """Let go."""
        os.close(self._file)


def wal_path(path: str) -> str:
    """Where SQLite keeps the log of this database: beside the file itself, not beside a link."""
    return f"{os.path.realpath(path)}-wal"
