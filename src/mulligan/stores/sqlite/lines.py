"""The lines of lanes and the turns of fairness keys: the book of `core.lines`.

A key has one line that names no limits, its pure line, and that one is kept in the key's own row.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from mulligan.core.lane import Lane
from mulligan.core.limits import StoredLimit, costs_of, costs_text, covering, micros, refund
from mulligan.core.lines import (
    NO_KEY,
    First,
    Key,
    Line,
    LineName,
    opened,
    step_of,
)
from mulligan.stores.sqlite.fields import Row, as_json
from mulligan.stores.sqlite.limit_states import LimitStates
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("lines")
_FIRST_OF = SQL["first_of"]
_GET = SQL["get"]
_PUT = SQL["put"]
_LIFT = SQL["lift"]
_DROP = SQL["drop"]
_PURE = SQL["pure"]
_PUT_PURE = SQL["put_pure"]
_LIFT_PURE = SQL["lift_pure"]
_DROP_PURE = SQL["drop_pure"]
_FIRST_LATER = SQL["first_later"]
_FIRST_READY = SQL["first_ready"]
_READY_AFTER = SQL["ready_after"]
_FIRST_WAITING = SQL["first_waiting"]
_WAITED_FOR = SQL["waited_for"]
_NEXT_LANE = SQL["next_lane"]
_NEXT_LANE_AT = SQL["next_lane_at"]
_NEXT_ALARM = SQL["next_alarm"]
_SET_ALARM = SQL["set_alarm"]
_CLEAR_ALARM = SQL["clear_alarm"]
_IS_FAIR = SQL["is_fair"]
_PRESENT_TURN = SQL["present_turn"]
_PASS_TO = SQL["pass_to"]
_FORGET_PAST = SQL["forget_past"]
_END_TURNS = SQL["end_turns"]
_END_KEYS = SQL["end_keys"]
_END_KEY = SQL["end_key"]
_KEY = SQL["key"]
_PUT_KEY = SQL["put_key"]
_REST_KEY = SQL["rest_key"]
_FORGET_KEY = SQL["forget_key"]
_FIRST_KEY = SQL["first_key"]
_FIRST_OTHER_KEY = SQL["first_other_key"]
# The names of pure lines begin with it; those of others are JSON arrays.
PURE = "."
decode_name = msgspec.json.Decoder(list[str]).decode


class LineBook(LimitStates):
    """What a transaction reads and writes of lines, and of the limits that they name."""

    # -- jobs ------------------------------------------------------------------------------------

    def first_row(self, name: LineName) -> Row | None:
        """(due, sequence, limits, number, expires_at) of the first job of a line."""
        row: Row | None = self._one(_FIRST_OF, *name.lane, text_of(name))
        return row

    def first_of(self, name: LineName) -> First | None:
        """The first job of a line; None if it has none."""
        row = self.first_row(name)
        return None if row is None else First(row[0], row[1], costs_of(row[2]))

    # -- lines -----------------------------------------------------------------------------------

    def line(self, name: LineName) -> Line | None:
        """The line, if it has jobs."""
        if name.limits:
            return self._line(_GET, *at(name))
        return self._line(_PURE, *name.lane, name.key)

    def lift(self, line: Line) -> None:
        """Take the line out of its stage."""
        line.stage, line.at = "lifted", None
        if line.name.limits:
            self._do(_LIFT, *at(line.name))
        else:
            self._do(_LIFT_PURE, *line.lane, line.name.key)

    def put(self, line: Line) -> None:
        """Keep the line as it is now."""
        position = (line.due, line.sequence)
        if line.name.limits:
            costs = costs_text(dict(line.costs))
            said = (*position, costs, line.turn, line.stage, line.at)
            self._do(_PUT, *at(line.name), *said)
        else:
            self._do(_PUT_PURE, *line.lane, line.name.key, *position, line.stage)

    def drop(self, line: Line) -> None:
        """Forget a line that has no jobs any more."""
        if line.name.limits:
            self._do(_DROP, *at(line.name))
        else:
            self._do(_DROP_PURE, *line.lane, line.name.key)

    def end_turns(self, lane: Lane) -> None:
        """Forget the turns of a lane of which no line has a key any more."""
        if not self.is_fair(lane):
            for statement in (_END_TURNS, _END_KEYS, _END_KEY):
                self._do(statement, *lane)

    def first_later(self, lane: Lane) -> Line | None:
        """Of the lines whose first job is not due, the one that is due first."""
        return self._line(_FIRST_LATER, *lane, *lane)

    def first_ready(self, lane: Lane, key: str) -> Line | None:
        """Of the ready lines of the key the first by (due, sequence)."""
        return self._line(_FIRST_READY, *lane, key, *lane, key)

    def ready_after(self, line: Line) -> tuple[float, int] | None:
        """(due, sequence) of the first ready line of the same key but for this one."""
        name = line.name
        of_key = (*name.lane, name.key)
        this = text_of(name) if name.limits else None
        found: tuple[float, int] | None = self._one(_READY_AFTER, *of_key, *of_key, this)
        return found

    def first_waiting(self, limit: str, lane: Lane) -> Line | None:
        """Of the lines of the lane that wait at the limit, the first in order."""
        return self._line(_FIRST_WAITING, limit, *lane)

    # -- limits ----------------------------------------------------------------------------------

    def lanes_at(self, limit: str) -> list[Lane]:
        """The lanes of which a line waits at the limit."""
        lanes: list[Lane] = []
        last: tuple[str, str, int] = ("", "", -1)
        while row := self._one(_NEXT_LANE_AT, limit, *last):
            last = row
            lanes.append(Lane(*row))
        return lanes

    def alarm(self, limit: str, lane: Lane, at: float | None) -> None:
        """Look at the limit for this lane again at that time; None: not by itself."""
        if at is None:
            self._do(_CLEAR_ALARM, *lane, limit)
        else:
            self._do(_SET_ALARM, *lane, limit, at)

    def next_alarm(self, lane: Lane) -> tuple[float, str] | None:
        """The lane's next alarm: when, and at which limit."""
        alarm: tuple[float, str] | None = self._one(_NEXT_ALARM, *lane)
        return alarm

    def store(self, name: str, limit: StoredLimit) -> None:
        """Keep a limit, and look at who waits for what it covers."""
        self.keep(name, limit)
        for (waited_for,) in sorted(self._tx.db.execute(_WAITED_FOR)):
            if covering(waited_for, [name]) is not None:
                opened(self, waited_for)

    def end(self, limits: str | None, refund_from: float | None = None) -> None:
        """A job holds its permits no more; refund what was charged when it started then."""
        for name, cost in costs_of(limits):
            state = self.state(name)
            state.used -= 1
            if refund_from is not None:
                started, now = micros(refund_from), micros(self.now)
                refund(self.limit_of(name), state, cost, started, now)
            self.keep_state(name)
            opened(self, name)

    def end_many(self, held: Iterable[tuple[str, int]]) -> None:
        """The same for jobs that ran: the limits of each sort, and how many of them there are.

        Each permit lets at most one line of a lane go on.
        """
        freed: dict[str, int] = {}
        for limits, many in held:
            for name, _ in costs_of(limits):
                freed[name] = freed.get(name, 0) + many
        for name, many in sorted(freed.items()):
            self.state(name).used -= many
            self.keep_state(name)
            for _ in range(many):
                if self.room_at(name, 1) > self.now or not self.lanes_at(name):
                    break
                opened(self, name)

    # -- turns -----------------------------------------------------------------------------------

    def is_fair(self, lane: Lane) -> bool:
        """Whether a line of the lane has a fairness key."""
        return bool(self._one(_IS_FAIR, *lane, *lane, *lane)[0])

    def present_turn(self, lane: Lane) -> int:
        """The highest turn in which a job has started, since the lane became fair."""
        row = self._one(_PRESENT_TURN, *lane)
        return 0 if row is None else row[0]

    def key(self, lane: Lane, name: str) -> Key:
        """The fairness key; one that the lane does not know has turn 0."""
        key, row = Key(lane, name), self._one(_KEY, *lane, name)
        if row is not None:
            key.turn, key.ready = row[0], None if row[1] is None else (row[1], row[2])
        return key

    def put_key(self, key: Key) -> None:
        """Keep the key as it is now, or forget it if its turn is past and it has no work.

        The last line with a key ends the turns.
        """
        asked = (*key.lane, key.name)
        if key.ready is not None:
            self._do(_PUT_KEY, *asked, key.turn, *key.ready)
            return
        if key.turn > self.present_turn(key.lane):
            self._do(_PUT_KEY, *asked, key.turn, None, None)
        elif not self._do(_FORGET_KEY, *asked):
            self._do(_REST_KEY, *asked)
        if key.name != NO_KEY:
            self.end_turns(key.lane)

    def first_other_key(self, lane: Lane, name: str) -> tuple[int, float, int] | None:
        """(turn, due, sequence) of the first key with a ready line but for this one."""
        found: tuple[int, float, int] | None = self._one(_FIRST_OTHER_KEY, *lane, name)
        return found

    def take_turns(self, lane: Lane, name: str, weight: float, many: int) -> None:
        """So many jobs of the key have started one after the other."""
        if self.is_fair(lane):
            key, step = self.key(lane, name), step_of(weight)
            last = max(key.turn, self.present_turn(lane)) + (many - 1) * step
            key.turn = last + step
            self.put_key(key)
            self.pass_to(lane, last)

    def first_key(self, lane: Lane) -> Key | None:
        """Of the keys with a ready line the one with the lowest (turn, due, sequence)."""
        row = self._one(_FIRST_KEY, *lane)
        if row is None:
            return None
        key = Key(lane, row[0])
        key.turn, key.ready = row[1], (row[2], row[3])
        return key

    def pass_to(self, lane: Lane, turn: int) -> None:
        """The lane's present turn is this one; keys of past turns without work are forgotten."""
        self._do(_PASS_TO, *lane, turn)
        self._do(_FORGET_PAST, *lane, turn)

    def wake(self, lane: Lane, due: float) -> None:
        """Wake a sleeper for a job that could start then."""
        self._tx.join(lane, due)

    # -- statements ------------------------------------------------------------------------------

    def _line(self, statement: str, *values: Any) -> Line | None:
        row = self._one(statement, *values)
        return None if row is None else line_from(row)


def text_of(name: LineName) -> str:
    """What tells a line from others of its lane."""
    return as_json([name.key, *name.limits]) if name.limits else PURE + name.key


def parts_of(text: str) -> tuple[str, tuple[str, ...]]:
    """The fairness key and the limits of a line that is called so."""
    if text.startswith(PURE):
        return text.removeprefix(PURE), ()
    key, *limits = decode_name(text)
    return key, tuple(limits)


def at(name: LineName) -> tuple[str, str, int, str, str]:
    """The columns by which a line is found."""
    return (*name.lane, name.key, text_of(name))


def line_from(row: Row) -> Line:
    """A line as it was kept."""
    queue, scope, priority, key, text, due, sequence, costs, turn, stage, waits_for = row
    limits = () if text is None else parts_of(text)[1]
    line = Line(LineName(Lane(queue, scope, priority), key, limits))
    line.due, line.sequence, line.costs = due, sequence, costs_of(costs)
    line.turn, line.stage, line.at = turn, stage, waits_for
    return line


def lined_lanes(tx: Transaction) -> frozenset[Lane]:
    """The lanes in lines of which jobs stand."""
    lanes: set[Lane] = set()
    last: tuple[str, str, int] = ("", "", -1)
    while rows := tx.db.execute(_NEXT_LANE, (*last, *last)).fetchall():
        last = min(rows)
        lanes.add(Lane(*last))
    return frozenset(lanes)
