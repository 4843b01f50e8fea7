"""The attempts of a run, kept on the disk: there may be millions, and memory for thousands.

They stand in a database that SQLite makes for this process alone. A small one never leaves its
cache, and what is on the disk is gone with the process.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Literal
from weakref import finalize

from msgspec import Struct
from msgspec.structs import astuple

Ending = Literal["done", "failed", "crashed", "running"]
# So many are written together.
AT_ONCE = 500
# KiB of the database that stay in memory.
CACHE = 16_384


class Attempt(Struct, eq=False, gc=False):
    """One attempt: which lane it came from, where it ran and how it ended.

    `home` is the region of the job, `before` the one that failed it last. `wait` is how long it was
    due before it started. What came of a job that failed is its `outcome`: a retry that falls due
    `outcome_at` in `next_lane`, or a dead letter. Events have numbers, which order those of one
    instant.
    """

    start_event: int
    job: str
    number: int
    home: str
    lane: str
    due: float
    sequence: int
    region: str
    worker: str
    before: str | None
    fairness_key: str | None
    started: float
    ended: float
    wait: float
    ending: Ending = "running"
    end_event: int | None = None
    outcome: Literal["retry-due", "dead"] | None = None
    outcome_at: float | None = None
    outcome_event: int | None = None
    next_lane: str | None = None

    @property
    def is_retry(self) -> bool:
        """Whether the job had failed before, if only in a probe that left its number as it was."""
        return self.before is not None


COLUMNS = Attempt.__struct_fields__
CREATE = f"""
    CREATE TABLE attempt (start_event INTEGER PRIMARY KEY, {", ".join(COLUMNS[1:])});
    CREATE TABLE waiting (lane, due, is_retry);
    CREATE TABLE event (t, event, job, region, name, number, lane);
"""
INSERT = f"INSERT INTO attempt VALUES ({', '.join('?' for _ in COLUMNS)})"


class Attempts:
    """The attempts in the order of their starts, once they have ended; they may be iterated twice.

    The table `waiting` has the jobs that were left pending, and `event` what happened besides.
    """

    def __init__(self) -> None:
        # The empty name is that of a temporary file, which is made when the cache is full.
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        finalize(self, self._db.close)
        self._db.execute(f"PRAGMA cache_size = -{CACHE}")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.executescript(CREATE)
        self._db.execute("BEGIN")
        self._ended: list[tuple[Any, ...]] = []

    def add(self, attempt: Attempt) -> None:
        """Keep an attempt that will not change any more."""
        self._ended.append(astuple(attempt))
        if len(self._ended) == AT_ONCE:
            self._write()

    def leave(self, waiting: "list[Waiting]") -> None:
        """Keep the jobs that are left."""
        self._db.executemany("INSERT INTO waiting VALUES (?, ?, ?)", map(astuple, waiting))

    def note(self, event: tuple[Any, ...]) -> None:
        """Keep an event that is neither the start of an attempt nor its end."""
        self._db.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)", event)

    def rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """What a query of the table `attempt` gives, row by row."""
        self._write()
        with closing(self._db.execute(query, values)) as found:
            yield from found

    def value(self, query: str, *values: Any) -> Any:
        """The one value that a query gives."""
        [[found]] = self.rows(query, *values)
        return found

    def __iter__(self) -> Iterator[Attempt]:
        return (Attempt(*row) for row in self.rows("SELECT * FROM attempt ORDER BY start_event"))

    def __len__(self) -> int:
        found: int = self.value("SELECT count(*) FROM attempt")
        return found

    def _write(self) -> None:
        if self._ended:
            self._db.executemany(INSERT, self._ended)
            self._ended.clear()


class Waiting(Struct, frozen=True):
    """A pending job, due or not."""

    lane: str
    due: float
    is_retry: bool
