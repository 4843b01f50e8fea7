"""Where jobs stand: each in its lane, held back from it, running, or ended."""

from collections.abc import Sequence

from mulligan.stores.sqlite._sql import as_json, load
from mulligan.stores.sqlite._transaction import Transaction

_JOIN_LANE = load("lane_join")
_LEAVE_LANE = load("lane_leave")
_LEAVE_HELD = load("held_leave")
_LEAVE_RUNNING = load("running_leave")
_CANCEL = load("end_cancelled")
_ANY_KEY = load("key_any")
_FREE_KEYS = load("key_free")


def join_lanes(tx: Transaction, places: Sequence[int]) -> None:
    """Let jobs that stand nowhere join the lanes that they are meant for."""
    if places:
        tx.db.execute(_JOIN_LANE, (as_json(places),))


def stop_running(tx: Transaction, places: Sequence[int]) -> None:
    """Take back the leases of these jobs."""
    if places:
        tx.db.execute(_LEAVE_RUNNING, (as_json(places),))


def close(tx: Transaction, places: Sequence[int]) -> None:
    """Jobs that have ended run no more, and others may have their unique keys."""
    stop_running(tx, places)
    if places and tx.db.execute(_ANY_KEY).fetchone()[0]:
        tx.db.execute(_FREE_KEYS, (as_json(places),))


def stop_holding(tx: Transaction, place: int) -> None:
    """Let a job that was held back join its lane."""
    tx.db.execute(_LEAVE_HELD, (place,))
    join_lanes(tx, [place])


def cancel(tx: Transaction, place: int, reason: str, *, outdated: bool) -> None:
    """End a job that has not ended, wherever it stands; then a lease of it may be outdated."""
    tx.db.execute(_CANCEL, (tx.now, outdated, reason, place))
    tx.db.execute(_LEAVE_LANE, (place,))
    tx.db.execute(_LEAVE_HELD, (place,))
    close(tx, [place])
