"""The write-ahead log on the disk.

SQLite would wait for the disk with the file locked, and every other process with it. So it commits
without waiting (`synchronous = NORMAL`), and whoever is promised durability is answered after the
log was synced, with nothing locked; one wait serves all that were written before it. The log keeps
the order of commits: what is on the disk is all up to some commit, and nothing of a later one.
"""

import os

from mulligan.core.errors import StoreError

sync_file = getattr(os, "fdatasync", os.fsync)


class Log:
    """The log of a database that is open; any thread may wait for it."""

    def __init__(self, path: str) -> None:
        self._path = f"{os.path.realpath(path)}-wal"
        self._file = os.open(self._path, os.O_RDWR)

    def sync(self) -> None:
        """Wait until everything that has been committed is on the disk."""
        try:
            sync_file(self._file)
        except OSError as error:
            raise StoreError(
                f"{self._path}: the disk did not take it ({error}), and what was written last may"
                " be lost when the power goes; check the disk, then send it again"
            ) from error

    def close(self) -> None:
        """Let go."""
        os.close(self._file)
