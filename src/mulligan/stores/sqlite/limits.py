"""Limits of plans: permits and starts; and how a job that ran frees what it held."""

from collections.abc import Sequence
from typing import NamedTuple

from mulligan.core.checks import rounded
from mulligan.core.plan import Cap, Limit, Rate
from mulligan.stores.sqlite.lines import LineBook
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("limits")
_ANY_PERMITS = SQL["any_permits"]
_PERMITS_OF = SQL["permits_of"]
_FREE = SQL["free"]
_USED = SQL["used"]
_CHARGE = SQL["charge"]
_STARTS = SQL["starts"]
_COUNT_START = SQL["count_start"]
_PRUNE_STARTS = SQL["prune_starts"]
_STATE_NAMES = SQL["state_names"]

# More than rounding can move a time, so that a range read from an index is wide enough.
A_MOMENT = 0.001


class Limits:
    """The limits of a plan during one claim: each is read once, and written by `settle`."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._charged: list[tuple[str, str]] = []
        self._counted: dict[Rate, int] = {}
        self._used: dict[str, int] = {}
        self._started: dict[tuple[str, float], tuple[int, float | None]] = {}

    def charge(self, key: str, job: str) -> None:
        """Give the job a permit."""
        self._used[key] = self.permits(key) + 1
        self._charged.append((key, job))

    def count(self, rate: Rate, starts: int) -> None:
        """Count starts."""
        self._counted[rate] = self._counted.get(rate, 0) + starts
        at = started_at(rate, self._tx.now)
        for (key, per), (number, oldest) in self._started.items():
            if key == rate.key and rounded(at + per) > self._tx.now:
                self._started[key, per] = (number + starts, at if oldest is None else oldest)

    def room(self, limit: Limit) -> int:
        """How many more starts the limit allows now."""
        if isinstance(limit, Cap):
            return limit.limit - self.permits(limit.key)
        if limit.limit is None:
            return 1
        most = limit.limit
        if limit.of:
            most = max(most, int(limit.ratio * self._starts(limit.of, limit.per)[0]))
        return most - self._starts(limit.key, limit.per)[0]

    def reopens_in(self, limit: Limit) -> float | None:
        """Seconds until the oldest start leaves the window; None for a cap."""
        if isinstance(limit, Cap):
            return None
        oldest = self._starts(limit.key, limit.per)[1]
        return None if oldest is None else rounded(oldest + limit.per) - self._tx.now

    def permits(self, key: str) -> int:
        """How many permits of the key are held."""
        if key not in self._used:
            self._used[key] = permits_used(self._tx, key)
        return self._used[key]

    def _starts(self, key: str, per: float) -> tuple[int, float | None]:
        if (key, per) not in self._started:
            now = self._tx.now
            starts = self._tx.db.execute(_STARTS, (key, now - per - A_MOMENT)).fetchall()
            starts += [(started_at(r, now), n) for r, n in self._counted.items() if r.key == key]
            within = [(at, number) for at, number in starts if rounded(at + per) > now]
            oldest = within[0][0] if within else None
            self._started[key, per] = (sum(number for _, number in within), oldest)
        return self._started[key, per]

    def settle(self) -> None:
        """Write what was charged and counted."""
        if self._charged:
            self._tx.db.executemany(_CHARGE, self._charged)
        for rate, starts in self._counted.items():
            self._tx.db.execute(_PRUNE_STARTS, (rate.key, self._tx.now - rate.per - A_MOMENT))
            self._tx.db.execute(_COUNT_START, (rate.key, started_at(rate, self._tx.now), starts))
        self._counted.clear()  # whoever asks from now on reads them from the database


def started_at(rate: Rate, now: float) -> float:
    """The time under which a start is counted.

    Fresh starts are many and need no exact window: a second each is enough, rounded down.
    """
    return now if rate.limit is not None else float(int(now))


class Held(NamedTuple):
    """What a job held while it ran: permits of these limits, if any, since it started.

    `refunded` says that it never ran.
    """

    job: str
    limits: str | None
    started_at: float
    refunded: bool = False


def release(tx: Transaction, jobs: Sequence[Held]) -> None:
    """Free what each of the jobs held, in order; others may have it now."""
    if any(each.limits is not None for each in jobs):
        book = LineBook(tx)
        for each in jobs:
            book.end(each.limits, each.started_at if each.refunded else None)
    if not tx.db.execute(_ANY_PERMITS).fetchone()[0]:
        return
    for each in jobs:
        freed = [limit for (limit,) in tx.db.execute(_PERMITS_OF, (each.job,))]
        if freed:
            tx.db.execute(_FREE, (each.job,))
            tx.freed += freed


def permits_used(tx: Transaction, key: str) -> int:
    """How many jobs hold a permit of the key."""
    used: int = tx.db.execute(_USED, (key,)).fetchone()[0]
    return used


def prune_states(tx: Transaction) -> None:
    """Delete the states of named limits that are as if the limit had never been used."""
    names = tx.db.execute(_STATE_NAMES).fetchall()
    if names:
        book = LineBook(tx)
        for (name,) in names:
            book.keep_state(name)
