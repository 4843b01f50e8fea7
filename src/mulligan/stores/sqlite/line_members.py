"""Jobs that join and leave lines, those of a batch together."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mulligan.core.lane import Lane
from mulligan.core.limits import costs_of
from mulligan.core.lines import First, LineName, joined, left, line_of
from mulligan.stores.sqlite.fields import Row
from mulligan.stores.sqlite.lines import LineBook, parts_of, text_of
from mulligan.stores.sqlite.statements import as_json, load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("line_members")
_MEMBERS = SQL["members"]
_STAND = SQL["stand"]
_KNOWN_KEYS = SQL["known_keys"]
_PUT_KEYS = SQL["put_keys"]
_LINE_OF = SQL["line_of"]
_LEAVE = SQL["leave"]
# The row of a key that the lane does not know.
UNKNOWN: Row = (0, None, None, None, None)


def stand_in_lines(tx: Transaction, numbers: Sequence[int]) -> None:
    """Let those of the jobs join their lines that name limits or have a fairness key.

    Of those that join one line only the first matters to it.
    """
    firsts: dict[LineName, First] = {}
    stand: list[tuple[str, int]] = []
    texts: dict[LineName, str] = {}
    for number, due, sequence, limits, key, *lane in tx.db.execute(
        _MEMBERS, (as_json(list(numbers)),)
    ).fetchall():
        name = line_of(Lane(*lane), key, limits)
        if name is None:
            continue
        if name not in texts:
            texts[name] = text_of(name)
        stand.append((texts[name], number))
        first = firsts.get(name)
        if first is None or (due, sequence) < first[:2]:
            firsts[name] = First(due, sequence, costs_of(limits))
    tx.db.executemany(_STAND, stand)
    book = LineBook(tx)
    by_lane: dict[Lane, dict[str, First]] = defaultdict(dict)
    for name, first in firsts.items():
        if name.limits:
            joined(book, name, first)
        else:
            by_lane[name.lane][name.key] = first
    for lane, by_key in by_lane.items():
        join_by_key(tx, book, lane, by_key)


def join_by_key(tx: Transaction, book: LineBook, lane: Lane, firsts: Mapping[str, First]) -> None:
    """Jobs of one lane have joined lines that name no limits, by their fairness keys.

    As `joined` would say of each: such lines wait for nothing, so that those which are new are
    ready or later, and only where one is ready its key changes.
    """
    known = {key: rest for key, *rest in tx.db.execute(_KNOWN_KEYS, (as_json([*firsts]), *lane))}
    present = book.present_turn(lane)
    rows: list[Row] = []
    for key, first in firsts.items():
        turn, due, sequence, line_due, line_sequence = known.get(key, UNKNOWN)
        position = first[:2]
        if line_due is not None:
            if position < (line_due, line_sequence):
                joined(book, LineName(lane, key, ()), first)
            continue
        stage = stage_at(first.due, tx.now)
        ready = None if due is None else (due, sequence)
        if stage == "ready":
            turn = max(turn, present) if ready is None else turn
            ready = position if ready is None else min(position, ready)
        rows.append((*lane, key, turn, *(ready or (None, None)), *position, stage))
        book.wake(lane, first.due)
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
