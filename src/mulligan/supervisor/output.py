"""What a process prints: a file that it writes, and that its supervisor reads along.

A file and not a pipe: a pipe breaks when the supervisor dies, and would break the worker with it.
"""

import os
from collections import deque
from pathlib import Path
from typing import IO

KEPT = 10
# A longer file is emptied once it has been read.
LONGEST_FILE = 1 << 20
LONGEST_LINE = 1 << 16


class Lines:
    """Follows the file, and keeps the last few lines; those that stand there already count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._rest = b""
        self.last: deque[str] = deque(maxlen=KEPT)
        self.read()

    def open(self) -> IO[bytes]:
        """The file for a new process to append to, emptied of what the one before it said."""
        opened = self._path.open("ab")
        opened.truncate(0)
        self._place, self._rest = 0, b""
        self.last.clear()
        return opened

    def read(self) -> list[str]:
        """The lines that were written since the last call; an unfinished one waits."""
        *whole, rest = (self._rest + self._new()).split(b"\n")
        self._rest = rest[-LONGEST_LINE:]
        fresh = [shown(line) for line in whole]
        self.last.extend(fresh)
        return fresh

    def finish(self) -> list[str]:
        """All that is left, when nobody writes any more."""
        fresh = self.read()
        if self._rest:
            fresh.append(shown(self._rest))
            self.last.append(fresh[-1])
            self._rest = b""
        return fresh

    def _new(self) -> bytes:
        try:
            with self._path.open("rb") as opened:
                opened.seek(self._place)
                data = opened.read()
        except FileNotFoundError:
            return b""
        self._place += len(data)
        if self._place > LONGEST_FILE:
            os.truncate(self._path, 0)  # its writer appends, and so goes on at the beginning
            self._place = 0
        return data


def shown(line: bytes) -> str:
    """A line as text, whatever is in it."""
    return line.decode("utf-8", "replace").rstrip()
