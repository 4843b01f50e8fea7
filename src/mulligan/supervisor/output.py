"""The output of a process: a file that the process writes and its supervisor follows.

It is no pipe, because a pipe would break when the supervisor dies and take the worker with it.
"""

import contextlib
import os
from collections import deque
from pathlib import Path
from typing import IO

from mulligan.supervisor.liveness import PRIVATE

KEPT = 10
# A longer file is emptied once it has been read.
LONGEST_FILE = 1 << 20
LONGEST_LINE = 1 << 16


class Output:
    """Follows the file and keeps its last few lines, those from before this supervisor too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self.last: deque[str] = deque(maxlen=KEPT)
        self.read()

    def open(self) -> IO[bytes]:
        """The file for a new process to append to, without the output of the one before."""
        opened = emptied(self._path)
        self._offset, self._rest = 0, b""
        self.last.clear()
        return opened

    def read(self) -> list[str]:
        """The lines written since the last call; an unfinished line is kept for the next."""
        *whole, rest = (self._rest + self._new()).split(b"\n")
        self._rest = rest[-LONGEST_LINE:]
        fresh = [shown(line) for line in whole]
        self.last.extend(fresh)
        return fresh

    def finish(self) -> list[str]:
        """The rest of the output, once the process has ended."""
        fresh = self.read()
        if self._rest:
            fresh.append(shown(self._rest))
            self.last.append(fresh[-1])
            self._rest = b""
        return fresh

    def _new(self) -> bytes:
        try:
            with self._path.open("rb") as opened:
                opened.seek(self._offset)
                data = opened.read()
        except FileNotFoundError:
            return b""
        self._offset += len(data)
        if self._offset > LONGEST_FILE:
            os.truncate(self._path, 0)  # the process appends, and so continues at the start
            self._offset = 0
        return data


def emptied(path: Path) -> IO[bytes]:
    """The file, empty, to append to. No other user may read it: tasks print what they like."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, PRIVATE)
    with contextlib.suppress(PermissionError):  # another user's, whom root does not lock out
        os.fchmod(opened, PRIVATE)
    return os.fdopen(opened, "ab")


def shown(line: bytes) -> str:
    """A line as text, whatever bytes are in it."""
    return line.decode("utf-8", "replace").rstrip()
