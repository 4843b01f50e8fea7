"""Runs: what a claim takes at once from the lines of a lane, as if it was taken one by one.

A run is of one line, or of the first jobs of lines that name no limits, one of each of many keys.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mulligan.core.checks import rounded
from mulligan.core.lane import Lane
from mulligan.core.limits import FOREVER
from mulligan.core.lines import NO_KEY, Line, step_of
from mulligan.stores.sqlite.fields import CLAIMED_LIST, WALKED, Row, as_json
from mulligan.stores.sqlite.lines import PURE, LineBook, text_of
from mulligan.stores.sqlite.stand import stage_at
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("runs", claimed=CLAIMED_LIST)
_LINE = SQL["line"]
_KEYS = SQL["keys"]
_FOLLOWING = SQL["following"]
_REST = SQL["rest"]
_GO_ON = SQL["go_on"]
DUE, SEQUENCE, NUMBER, SPECIAL = range(len(WALKED))


class Bounds(NamedTuple):
    """What ends a run: how many jobs, a job of another lane, a wait, and the lane's own first job.

    `before` and `first` begin with (due, sequence).
    """

    most: int
    before: Row | None
    waited: float
    first: Row | None

    def admit(self, row: Row, now: float) -> bool:
        """Whether the row may start now, before that of another lane."""
        return (
            (row[DUE] + self.waited < now or rounded(row[DUE] + self.waited) <= now)
            and not 0 <= row[SPECIAL] <= now
            and (self.before is None or row[:2] < self.before[:2])
        )

    def passes(self, turn: int, row: Row, turn_of_lane: int) -> bool:
        """Whether the row is before the first job that stands in the lane itself."""
        return self.first is None or (turn, *row[:2]) < (turn_of_lane, *self.first[:2])


def of_line(
    tx: Transaction, book: LineBook, line: Line, weight: float, bounds: Bounds
) -> list[Row]:
    """The first job of a ready line that lacks nothing, and those behind it that are next too."""
    lane, key, limits = line.name
    most, step = bounds.most, step_of(weight)
    turn = plain_turn = 0
    other = rival = None
    if most > 1 and any(book.first_waiting(name, lane) is not None for name in limits):
        most = 1
    if most > 1:
        most = book.rooms(line.costs, most)
    fair = most > 1 and book.is_fair(lane)
    if most > 1:
        rival = book.ready_after(line)
    if fair:
        present = book.present_turn(lane)
        turn = max(book.key(lane, key).turn, present)
        plain_turn = max(book.key(lane, NO_KEY).turn, present)
        other = book.first_other_key(lane, key)
        if other is not None:  # no more are read than turns come before the other key's
            most = min(most, max(0, other[0] - turn) // step + 2)
    rows = tx.db.execute(_LINE, (*lane, text_of(line.name), most)).fetchall()
    named = rows[0][-1]
    taken = [rows[0][:-1]]
    for ahead, row in enumerate(rows[1:], 1):
        mine = turn + ahead * step if fair else 0
        lanes_own = mine if key == NO_KEY else max(plain_turn, mine - step)
        if not (
            row[-1] == named
            and bounds.admit(row, tx.now)
            and (rival is None or row[:2] < rival)
            and (other is None or (mine, *row[:2]) < other)
            and bounds.passes(mine, row, lanes_own)
        ):
            break
        taken.append(row[:-1])
    return taken


class Turn(NamedTuple):
    """A job that starts in a turn of its key, and the key's next one."""

    key: str
    turn: int
    following: int
    row: Row


def of_keys(
    tx: Transaction, book: LineBook, lane: Lane, weight: Callable[[str], float], bounds: Bounds
) -> list[Turn]:
    """The first jobs of the keys whose turns are next, of lines that name no limits.

    A key's second job is left for the next run: it ends where that could be next.
    """
    found = tx.db.execute(_KEYS, (*lane, bounds.most)).fetchall()
    if not found[1:]:
        return []
    present = book.present_turn(lane)
    own = book.key(lane, NO_KEY)
    ready = None if own.ready is None else (own.turn, *own.ready)
    steps: dict[float, int] = {}
    taken: list[Turn] = []
    ends = FOREVER  # the next turn of a key that is taken from
    for each in found:
        key, turn, named, due, sequence = each[:5]
        row = each[3:]
        if (
            named
            or turn >= ends
            or (ready is not None and ready < (turn, due, sequence))
            or not bounds.admit(row, tx.now)
            or not (bounds.first is None or bounds.passes(turn, row, max(own.turn, present)))
        ):
            break
        weighs = weight(key)
        step = steps.get(weighs)
        if step is None:
            step = steps[weighs] = step_of(weighs)
        present = max(present, turn)
        following = present + step
        ends = min(ends, following)
        taken.append(Turn(key, present, following, row))
    return taken


def take_turns(tx: Transaction, book: LineBook, lane: Lane, turns: Sequence[Turn]) -> None:
    """The jobs have started and left their lines: as `started` would say of each."""
    lines = as_json([PURE + each.key for each in turns])
    found = tx.db.execute(_FOLLOWING, (lines, *lane))
    following = {line.removeprefix(PURE): (due, sequence) for line, due, sequence in found}
    kept: list[Row] = []
    gone: dict[int, list[str]] = {}
    for each in turns:
        position = following.get(each.key)
        if position is None:
            gone.setdefault(each.following, []).append(each.key)
            continue
        stage = stage_at(position[0], tx.now)
        ready = position if stage == "ready" else (None, None)
        kept.append((each.following, *ready, *position, stage, *lane, each.key))
        book.wake(lane, position[0])
    tx.db.executemany(_GO_ON, kept)
    for turn, keys in gone.items():
        tx.db.execute(_REST, (turn, *lane, as_json(keys)))
    book.pass_to(lane, turns[-1].turn)
    if gone:
        book.end_turns(lane)
