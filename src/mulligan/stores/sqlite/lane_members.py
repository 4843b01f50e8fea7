"""Where jobs stand: how they join and leave lanes and lines, and end before they start."""

from collections.abc import Sequence

from mulligan.stores.sqlite.line_members import leave_line, stand_in_lines
from mulligan.stores.sqlite.statements import as_json, load
from mulligan.stores.sqlite.transaction import Transaction, close

SQL = load("lane_members")
_JOIN_LANES = SQL["join_lanes"]
_LEAVE_LANE = SQL["leave_lane"]
_LEAVE_HELD = SQL["leave_held"]
_CANCEL = SQL["cancel"]


def join_lanes(tx: Transaction, numbers: Sequence[int]) -> None:
    """Let jobs that stand nowhere join the lanes that they are meant for, or lines of these."""
    if numbers and tx.db.execute(_JOIN_LANES, (as_json(numbers),)).rowcount < len(numbers):
        stand_in_lines(tx, numbers)


def stop_holding(tx: Transaction, number: int) -> None:
    """Let a job that was held back join its lane."""
    tx.db.execute(_LEAVE_HELD, (number,))
    join_lanes(tx, [number])


def leave_lane(tx: Transaction, number: int) -> None:
    """Take a pending job out of its lane, or out of its line."""
    tx.db.execute(_LEAVE_LANE, (number,))
    leave_line(tx, number)


def cancel_stored(tx: Transaction, number: int, reason: str, *, outdated: bool) -> None:
    """End a job that has not ended, wherever it stands; `outdated` makes a lease of it stale."""
    tx.db.execute(_CANCEL, (tx.now, outdated, reason, tx.now, number))
    leave_lane(tx, number)
    tx.db.execute(_LEAVE_HELD, (number,))
    close(tx, [number])
