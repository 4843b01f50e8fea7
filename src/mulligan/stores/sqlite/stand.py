"""How jobs join the lines of their lanes, and leave them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mulligan.core.lane import Lane
from mulligan.core.limits import costs_of
from mulligan.core.lines import First, LineName, joined, left, line_of
from mulligan.stores.sqlite.fields import Row, as_json
from mulligan.stores.sqlite.lines import PURE, LineBook, parts_of, text_of
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("stand")
_MEMBERS = SQL["members"]
_STAND = SQL["stand"]
_KNOWN_KEYS = SQL["known_keys"]
_PUT_KEYS = SQL["put_keys"]
_LINE_OF = SQL["line_of"]
_LEAVE = SQL["leave"]
# (due, sequence) of a job.
Position = tuple[float, int]
# The row of a key that the lane does not know.
UNKNOWN: Row = (0, None, None, None, None)


def stand_in_lines(tx: Transaction, numbers: Sequence[int]) -> None:
    """Let those of the jobs join their lines that name limits or have a fairness key.

    Of those that join one line only the first matters to it.
    """
    limited: dict[LineName, First] = {}
    by_lane: dict[Row, dict[str, Position]] = defaultdict(dict)
    stand: list[tuple[str, int]] = []
    for row in tx.db.execute(_MEMBERS, (as_json(list(numbers)),)).fetchall():
        number, due, sequence, limits, key = row[:5]
        lane = row[5:]
        position = due, sequence
        if limits is None:
            stand.append((PURE + key, number))
            firsts = by_lane[lane]
            if key not in firsts or position < firsts[key]:
                firsts[key] = position
        elif (name := line_of(Lane(*lane), key, limits)) is not None:
            stand.append((text_of(name), number))
            if name not in limited or position < limited[name][:2]:
                limited[name] = First(due, sequence, costs_of(limits))
    tx.db.executemany(_STAND, stand)
    book = LineBook(tx)
    for name, first in limited.items():
        joined(book, name, first)
    for lane, firsts in by_lane.items():
        join_by_key(tx, book, Lane(*lane), firsts)


def join_by_key(
    tx: Transaction, book: LineBook, lane: Lane, firsts: Mapping[str, Position]
) -> None:
    """Jobs of one lane have joined lines that name no limits, by their fairness keys.

    As `joined` would say of each: such lines wait for nothing, so that those which are new are
    ready or later, and only where one is ready its key changes.
    """
    known = {key: rest for key, *rest in tx.db.execute(_KNOWN_KEYS, (as_json([*firsts]), *lane))}
    present = book.present_turn(lane)
    rows: list[Row] = []
    for key, position in firsts.items():
        turn, due, sequence, line_due, line_sequence = known.get(key, UNKNOWN)
        if line_due is not None:
            if position < (line_due, line_sequence):
                joined(book, LineName(lane, key, ()), First(*position, ()))
            continue
        stage = stage_at(position[0], tx.now)
        ready = None if due is None else (due, sequence)
        if stage == "ready":
            turn = max(turn, present) if ready is None else turn
            ready = position if ready is None else min(position, ready)
        rows.append((*lane, key, turn, *(ready or (None, None)), *position, stage))
        book.wake(lane, position[0])
    tx.db.executemany(_PUT_KEYS, rows)


def stage_at(due: float, now: float) -> str:
    """The stage of a line that waits for nothing but its first job's time."""
    return "later" if due > now else "ready"


def leave_line(tx: Transaction, number: int) -> bool:
    """Take a pending job out of its line; False if it stands in none."""
    row = tx.db.execute(_LINE_OF, (number,)).fetchone()
    if row is None:
        return False
    queue, scope, priority, text, sequence = row
    tx.db.execute(_LEAVE, (number,))
    left(LineBook(tx), LineName(Lane(queue, scope, priority), *parts_of(text)), sequence)
    return True
