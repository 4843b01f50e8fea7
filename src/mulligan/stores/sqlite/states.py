"""The state of a job: a row of `lane`, `held`, `running` or `ended`, and how it moves."""

from collections.abc import Sequence

from mulligan.stores.sqlite.statements import as_json, load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("states")
_JOIN_LANES = SQL["join_lanes"]
_LEAVE_LANE = SQL["leave_lane"]
_LEAVE_HELD = SQL["leave_held"]
_LEAVE_RUNNING = SQL["leave_running"]
_LEAVE_ENDED = SQL["leave_ended"]
_CANCEL = SQL["cancel"]
_ANY_UNIQUE_KEY = SQL["any_unique_key"]
_FREE_UNIQUE_KEYS = SQL["free_unique_keys"]


def join_lanes(tx: Transaction, numbers: Sequence[int]) -> None:
    """Let jobs that stand nowhere join the lanes that they are meant for."""
    if numbers:
        tx.db.execute(_JOIN_LANES, (as_json(numbers),))


def stop_running(tx: Transaction, numbers: Sequence[int]) -> None:
    """Take back the leases of these jobs."""
    if numbers:
        tx.db.execute(_LEAVE_RUNNING, (as_json(numbers),))


def close(tx: Transaction, numbers: Sequence[int]) -> None:
    """Jobs that have ended run no more, and others may have their unique keys."""
    stop_running(tx, numbers)
    if numbers and tx.db.execute(_ANY_UNIQUE_KEY).fetchone()[0]:
        tx.db.execute(_FREE_UNIQUE_KEYS, (as_json(numbers),))


def stop_holding(tx: Transaction, number: int) -> None:
    """Let a job that was held back join its lane."""
    tx.db.execute(_LEAVE_HELD, (number,))
    join_lanes(tx, [number])


def leave_ended(tx: Transaction, number: int) -> None:
    """A job that has ended is replayed or deleted."""
    tx.db.execute(_LEAVE_ENDED, (number,))


def cancel(tx: Transaction, number: int, reason: str, *, outdated: bool) -> None:
    """End a job that has not ended, wherever it stands; `outdated` makes a lease of it stale."""
    tx.db.execute(_CANCEL, (tx.now, outdated, reason, number))
    tx.db.execute(_LEAVE_LANE, (number,))
    tx.db.execute(_LEAVE_HELD, (number,))
    close(tx, [number])
