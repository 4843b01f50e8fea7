"""Limits that jobs name, and fairness keys, as operators set them and readers see them."""

from mulligan.core.checks import rounded
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView, Limit, LimitState, LimitView, StoredLimit, view_of
from mulligan.core.lines import TURN, opened
from mulligan.stores.sqlite.limit_states import state_from
from mulligan.stores.sqlite.lines import LineBook
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("named_limits")
_STATES = SQL["states"]
_WAITING_JOBS = SQL["waiting_jobs"]
_KEYS = SQL["keys"]


def set_limit(tx: Transaction, name: str, limit: Limit | None, *, declared: bool) -> None:
    """Store what an app declares or an operator sets."""
    book = LineBook(tx)
    before = book.stored().get(name, StoredLimit())
    after = before.with_declared(limit) if declared else before.with_set(limit)
    if after != before:
        book.store(name, after)


def pause_limit(tx: Transaction, name: str, seconds: float, *, at_least: bool) -> None:
    """Start nobody of the limit for so long; 0 ends a pause."""
    book = LineBook(tx)
    book.pause(name, rounded(tx.now + seconds), at_least=at_least)
    opened(book, name)


def spend(tx: Transaction, name: str, cost: int) -> None:
    """Charge a limit so much."""
    LineBook(tx).spend(name, cost)


def limits(tx: Transaction, most: int) -> list[LimitView]:
    """The limits that are stored or in use, in order of names."""
    book = LineBook(tx)
    states = {name: state_from(row) for name, *row in tx.db.execute(_STATES)}
    waiting = dict(tx.db.execute(_WAITING_JOBS).fetchall())
    names = sorted({*book.stored(), *states, *waiting})
    return [
        view_of(
            name,
            book.stored().get(name, StoredLimit()),
            book.limit_of(name),
            states.get(name) or LimitState(),
            waiting=waiting.get(name, 0),
            now=tx.now,
        )
        for name in names[:most]
    ]


def keys(tx: Transaction, queue: str, most: int) -> list[KeyView]:
    """The fairness keys of the queue with work waiting, those with most work first."""
    rows = tx.db.execute(_KEYS, (queue, queue, most))
    return [
        KeyView(Lane(queue, scope, priority), key, waiting, max(0, turn - present) / TURN)
        for scope, priority, key, waiting, turn, present in rows
    ]
