"""Whether this process's clock agrees with the clocks of other processes that write to the file.

SQLite has no server whose clock could decide. So the file contains the time of the last writer, and
each process that writes renews it every few seconds: as long as a worker is alive, it is recent. A
process with another time, such as one on a clock that was set wrong or jumped, compares before it
writes. If workers of other processes are alive, it waits until one of them writes its time. If the
times differ, this process writes nothing: by a clock that is ahead it would delete what others keep
and reclaim what they hold. If nobody writes, no clock contradicts this one.
"""

import logging
from collections.abc import Callable
from math import inf
from sqlite3 import Connection
from time import sleep

from mulligan.core.checks import span
from mulligan.core.errors import StoreUnavailableError
from mulligan.stores.sqlite.statements import load

SQL = load("clock")
_LAST = SQL["last"]
_WRITE = SQL["write"]
_RENEW_LEASES = SQL["renew_leases"]
MICROS = 1_000_000
# In seconds: by how much clocks may differ; how often the file's time is renewed; how long others
# have to renew it, and how often this process looks.
TOLERANCE = 10.0
RENEW_EVERY = 5.0
WAIT = 8.0
LOOK_EVERY = 0.1
log = logging.getLogger("mulligan.store")


class ClockGuard:
    """Refuses to write with a clock that the clocks of other processes contradict.

    `others_live` returns whether a worker of another process is alive, `monotonic` the time of a
    clock that nobody sets.
    """

    def __init__(
        self,
        path: str,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        others_live: Callable[[], bool],
    ) -> None:
        self._path = path
        self._clock = clock
        self._monotonic = monotonic
        self._others_live = others_live
        # The clock's lead over the monotonic one, as it was when the clock was last trusted.
        self._lead: float | None = None
        self._renew_at = -inf
        self._written: float | None = None
        self._refused: StoreUnavailableError | None = None
        self._refused_until = -inf
        # The time of the last writer, if leases that were alive then need to be renewed.
        self._renew_from: float | None = None

    def check(self, db: Connection) -> None:
        """Before a transaction that writes: raise if the clock is wrong. May wait for others."""
        if self._lead is not None:
            if abs(self._clock() - self._monotonic() - self._lead) <= TOLERANCE:
                return
            log.warning("%s: the clock of this process jumped", self._path)
        self._agree(db)
        self._lead = self._clock() - self._monotonic()
        self._renew_at, self._written = -inf, None

    def write(self, db: Connection, now: float) -> bool:
        """In a transaction that writes: renew the file's time if it is due. Returns whether."""
        if self._monotonic() < self._renew_at:
            return False
        last = last_written(db)
        if last is not None and self._written is not None:
            if last < self._written - TOLERANCE and self._others_live():
                self._lead = None
                raise self._refusal(now - last)
            if last > now + TOLERANCE:
                log.warning("%s: %s", self._path, ahead_of(last - now))
        db.execute(_WRITE, (round(now * MICROS),))
        if self._renew_from is not None:
            db.execute(_RENEW_LEASES, (now, self._renew_from, now))
        return True

    def written(self, now: float) -> None:
        """The transaction that renewed the file's time is committed."""
        self._lead = self._clock() - self._monotonic()
        self._renew_at = self._monotonic() + RENEW_EVERY
        self._written, self._renew_from = now, None

    def _agree(self, db: Connection) -> None:
        """Return once no other clock contradicts this one; raises if one does."""
        last = last_written(db)
        if last is None or self._agrees(last):
            return
        if not self._others_live():
            if last > self._clock():
                log.warning("%s: %s", self._path, ahead_of(last - self._clock()))
            self._renew_from = None if self._lead is None else last
            return
        if self._refused is not None and self._monotonic() < self._refused_until:
            raise self._refused
        until = self._monotonic() + WAIT
        seen: float | None = last
        while seen == last:
            if self._monotonic() >= until:
                self._renew_from = last
                return
            sleep(LOOK_EVERY)
            seen = last_written(db)
        if seen is not None and not self._agrees(seen):
            raise self._refusal(self._clock() - seen)

    def _agrees(self, last: float) -> bool:
        return abs(self._clock() - last) <= TOLERANCE

    def _refusal(self, ahead: float) -> StoreUnavailableError:
        self._refused = StoreUnavailableError(
            f"{self._path}: {differs(ahead)}; until the clock is set right, it writes nothing"
        )
        self._refused_until = self._monotonic() + WAIT
        return self._refused


def last_written(db: Connection) -> float | None:
    """The time of the last writer; None if there is none."""
    row = db.execute(_LAST).fetchone()
    return None if row is None or not isinstance(row[0], int) else row[0] / MICROS


def differs(ahead: float) -> str:
    """A sentence about this process's clock, which is ahead of the workers' or behind it."""
    way = "ahead of" if ahead > 0 else "behind"
    return (
        f"the clock of this process is {span(abs(ahead))} {way} the clock of the workers that write"
        " to the file"
    )


def ahead_of(seconds: float) -> str:
    """A sentence about a last writer whose clock is ahead of this process's."""
    return (
        f"the last process that wrote to the file had a clock that is {span(seconds)} ahead of the"
        " clock of this process"
    )
