"""Jobs that join and leave lines, those of a batch together."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mulligan.core.lane import Lane
from mulligan.core.limits import costs_of
from mulligan.core.lines import NO_TURN, First, LineName, joined, left, line_of
from mulligan.stores.sqlite.fields import Row
from mulligan.stores.sqlite.lines import LineBook, decode_name, pure, text_of
from mulligan.stores.sqlite.statements import as_json, load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("line_members")
_STANDING = SQL["standing"]
_STAND = SQL["stand"]
_KNOWN_LINES = SQL["known_lines"]
_KNOWN_KEYS = SQL["known_keys"]
_LINE_OF = SQL["line_of"]
_LEAVE = SQL["leave"]


def stand_in_lines(tx: Transaction, numbers: Sequence[int]) -> None:
    """Let those of the jobs join their lines that name limits or have a fairness key.

    Of those that join one line only the first matters to it.
    """
    firsts: dict[LineName, First] = {}
    stand: list[tuple[str, int]] = []
    texts: dict[LineName, str] = {}
    for number, due, sequence, limits, key, *lane in tx.db.execute(
        _STANDING, (as_json(list(numbers)),)
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
    ready or later.
    """
    names = as_json({key: pure(key) for key in firsts})
    known = {key: position for key, *position in tx.db.execute(_KNOWN_LINES, (names, *lane))}
    for key, position in known.items():
        if [*firsts[key][:2]] < position:
            joined(book, LineName(lane, key, ()), firsts[key])
    new = {key: first for key, first in firsts.items() if key not in known}
    if not new:
        return
    lines = [
        (*lane, key, pure(key), due, sequence, None, NO_TURN, stage_at(due, tx.now), None)
        for key, (due, sequence, _) in new.items()
    ]
    ready = {key: (due, sequence) for key, (due, sequence, _) in new.items() if due <= tx.now}
    book.put_rows(lines, keys_with(tx, book, lane, ready))
    for due, *_ in new.values():
        book.wake(lane, due)


def keys_with(
    tx: Transaction, book: LineBook, lane: Lane, ready: Mapping[str, tuple[float, int]]
) -> list[Row]:
    """Those of the keys that change with such a line more that is ready, as `renew_key` says."""
    present = book.present_turn(lane)
    turns = {
        key: (turn, None if due is None else (due, sequence))
        for key, turn, due, sequence in tx.db.execute(_KNOWN_KEYS, (as_json(list(ready)), *lane))
    }
    rows: list[Row] = []
    for key, position in ready.items():
        turn, before = turns.get(key, (0, None))
        if before is None:
            rows.append((*lane, key, max(turn, present), *position))
        elif position < before:
            rows.append((*lane, key, turn, *position))
    return rows


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
    key, *limits = decode_name(text)
    left(LineBook(tx), LineName(Lane(queue, scope, priority), key, tuple(limits)), sequence)
    return True
