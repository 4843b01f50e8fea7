"""Permits, and the jobs that are held until their concurrency key has room."""

from collections.abc import Sequence

from mulligan.core.lane import Lane
from mulligan.stores.sqlite._sql import load
from mulligan.stores.sqlite._standing import stop_holding
from mulligan.stores.sqlite._transaction import Transaction

_ANY = load("permits_any")
_OF = load("permits_of")
_FREE = load("permits_free")
_USED = load("permits_used")
_NEXT = load("held_next")


def any_permits(tx: Transaction) -> bool:
    """Whether any job holds a permit; where none does, there is nothing to release."""
    return bool(tx.db.execute(_ANY).fetchone()[0])


def release(tx: Transaction, jobs: Sequence[tuple[str, str | None]]) -> None:
    """Free the permits of each (job, concurrency key) in order, and let go of who may run now."""
    keyed = any(key is not None for _, key in jobs)
    if not keyed and not any_permits(tx):
        return
    for job, key in jobs:
        freed = [gate for (gate,) in tx.db.execute(_OF, (job,))]
        if freed:
            tx.db.execute(_FREE, (job,))
            tx.freed += freed
        if key is not None:
            let_go(tx, key, tx.db.execute(_USED, (f"key:{key}",)).fetchone()[0])


def let_go(tx: Transaction, key: str, used: int) -> list[tuple[Lane, int]]:
    """Let the first held job of each lane and limit stand again, where the limit leaves room.

    Gives (lane, place) of those who do. It looks only at the first of each, however many wait.
    """
    gone: list[tuple[Lane, int]] = []
    after: tuple[str, str, int, int] = ("", "", -1, -1)
    while row := tx.db.execute(_NEXT, (key, *after)).fetchone():
        queue, scope, priority, limit, due, place = row
        after = (queue, scope, priority, limit)
        if limit > used:
            lane = Lane(queue, scope, priority)
            stop_holding(tx, place)
            tx.join(lane, due)
            gone.append((lane, place))
    return gone
