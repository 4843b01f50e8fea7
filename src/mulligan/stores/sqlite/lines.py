"""The lines of lanes, and what is used of limits that jobs name: the book of `core.lines`."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mulligan.core.checks import rounded
from mulligan.core.lane import Lane
from mulligan.core.limits import (
    FOREVER,
    SECOND,
    Limit,
    LimitState,
    StoredLimit,
    allowance,
    charge,
    costs_of,
    costs_text,
    covering,
    idle_from,
    micros,
    price,
    refund,
    room_at,
)
from mulligan.core.lines import (
    NO_KEY,
    First,
    Key,
    Line,
    LineName,
    opened,
    step_of,
)
from mulligan.stores.sqlite.fields import Row
from mulligan.stores.sqlite.statements import as_json, load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("lines")
_FIRST_OF = SQL["first_of"]
_READY_AFTER = SQL["ready_after"]
_NEXT_ALARM = SQL["next_alarm"]
_STATE = SQL["state"]
_IS_FAIR = SQL["is_fair"]
_PRESENT_TURN = SQL["present_turn"]
_KEY = SQL["key"]
_FIRST_OTHER_KEY = SQL["first_other_key"]
_FIRST_KEY = SQL["first_key"]
_GET = SQL["get"]
_FIRST_LATER = SQL["first_later"]
_FIRST_READY = SQL["first_ready"]
_FIRST_WAITING = SQL["first_waiting"]
_LIFT = SQL["lift"]
_PUT = SQL["put"]
_DROP = SQL["drop"]
_CLEAR_ALARM = SQL["clear_alarm"]
_SET_ALARM = SQL["set_alarm"]
_FORGET_LIMIT = SQL["forget_limit"]
_STORE_LIMIT = SQL["store_limit"]
_FORGET_STATE = SQL["forget_state"]
_PUT_STATE = SQL["put_state"]
_FORGET_KEY = SQL["forget_key"]
_PUT_KEY = SQL["put_key"]
_PASS_TO = SQL["pass_to"]
_FORGET_PAST = SQL["forget_past"]
_LIMITS = SQL["limits"]
_WAITED_FOR = SQL["waited_for"]
_END_TURNS = SQL["end_turns"]
_END_KEYS = SQL["end_keys"]
_END_KEY = SQL["end_key"]
_NEXT_LANE_AT = SQL["next_lane_at"]
_NEXT_LANE = SQL["next_lane"]
decode_name = msgspec.json.Decoder(list[str]).decode
decode_limit = msgspec.json.Decoder(Limit).decode
decode_starts = msgspec.json.Decoder(list[tuple[int, int]]).decode


class LineBook:
    """What a transaction reads and writes of lines; each limit is read once."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.now = tx.now
        self._stored: dict[str, StoredLimit] | None = None
        self._states: dict[str, LimitState] = {}

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
        return self._line(_GET, *at(name))

    def lift(self, line: Line) -> None:
        """Take the line out of its stage."""
        line.stage, line.at = "lifted", None
        self._do(_LIFT, *at(line.name))

    def put(self, line: Line) -> None:
        """Keep the line as it is now."""
        costs = costs_text(dict(line.costs))
        said = (line.due, line.sequence, costs, line.turn, line.stage, line.at)
        self._do(_PUT, *at(line.name), *said)

    def drop(self, line: Line) -> None:
        """Forget a line that has no jobs any more; the last one with a key ends the turns."""
        self._do(_DROP, *at(line.name))
        if line.name.key != NO_KEY:
            self.end_turns(line.lane)

    def put_rows(self, lines: Sequence[Row], keys: Sequence[Row]) -> None:
        """Keep many lines and keys, as rows."""
        self._tx.db.executemany(_PUT, lines)
        self._tx.db.executemany(_PUT_KEY, keys)

    def drop_rows(self, lines: Sequence[Row]) -> None:
        """Forget many lines, as `at` names them."""
        self._tx.db.executemany(_DROP, lines)

    def end_turns(self, lane: Lane) -> None:
        """Forget the turns of a lane of which no line has a key any more."""
        if not self.is_fair(lane):
            for statement in (_END_TURNS, _END_KEYS, _END_KEY):
                self._do(statement, *lane)

    def first_later(self, lane: Lane) -> Line | None:
        """Of the lines whose first job is not due, the one that is due first."""
        return self._line(_FIRST_LATER, *lane)

    def first_ready(self, lane: Lane, key: str) -> Line | None:
        """Of the ready lines of the key the first by (due, sequence)."""
        return self._line(_FIRST_READY, *lane, key, pure(key), *lane, key)

    def ready_after(self, line: Line) -> tuple[float, int] | None:
        """(due, sequence) of the first ready line of the same key but for this one."""
        name = line.name
        of_key = (*name.lane, name.key)
        found: tuple[float, int] | None = self._one(
            _READY_AFTER, *of_key, pure(name.key), *of_key, text_of(name)
        )
        return found

    def first_waiting(self, limit: str, lane: Lane) -> Line | None:
        """Of the lines of the lane that wait at the limit, the first in order."""
        return self._line(_FIRST_WAITING, limit, *lane)

    # -- limits ----------------------------------------------------------------------------------

    def lanes_at(self, limit: str) -> list[Lane]:
        """The lanes of which a line waits at the limit."""
        return lanes_from(self._tx, _NEXT_LANE_AT, limit)

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

    def room_at(self, limit: str, cost: int) -> float:
        """When the limit has room for the cost."""
        when = room_at(self.limit_of(limit), self.state(limit), cost, micros(self.now))
        return when if when == FOREVER else max(self.now, rounded(when / SECOND))

    def limit_of(self, name: str) -> Limit | None:
        """What holds for the name."""
        stored = self.stored()
        by = covering(name, (n for n, each in stored.items() if each.in_force is not None))
        return None if by is None else stored[by].in_force

    def stored(self) -> dict[str, StoredLimit]:
        """Every limit that is stored."""
        if self._stored is None:
            rows = self._tx.db.execute(_LIMITS)
            self._stored = {
                name: StoredLimit(limit_from(declared), limit_from(set_instead))
                for name, declared, set_instead in rows
            }
        return self._stored

    def store(self, name: str, limit: StoredLimit) -> None:
        """Keep a limit, and look at who waits for what it covers."""
        if limit.in_force is None:
            self._do(_FORGET_LIMIT, name)
        else:
            self._do(_STORE_LIMIT, name, text_from(limit.declared), text_from(limit.set))
        self._stored = None
        for (waited_for,) in sorted(self._tx.db.execute(_WAITED_FOR)):
            if covering(waited_for, [name]) is not None:
                opened(self, waited_for)

    def state(self, name: str) -> LimitState:
        """What is used of a name."""
        if name not in self._states:
            row = self._one(_STATE, name)
            self._states[name] = LimitState(starts=[]) if row is None else state_from(row)
        return self._states[name]

    def keep_state(self, name: str) -> None:
        """Write what is used of a name, or forget it if that says nothing."""
        state = self.state(name)
        if idle_from(self.limit_of(name), state) <= micros(self.now):
            self._do(_FORGET_STATE, name)
            del self._states[name]
        else:
            row = (state.used, as_json(state.starts), state.full_at, state.paused_until)
            self._do(_PUT_STATE, name, *row)

    def rooms(self, costs: Iterable[tuple[str, int]], most: int) -> int:
        """How many jobs of these costs could start now, up to `most`, if one could."""
        for name, cost in costs:
            most = rooms(self.limit_of(name), self.state(name), cost, most, micros(self.now))
        return most

    def start(self, costs: Iterable[tuple[str, int]], many: int) -> None:
        """Jobs start that name these limits: each holds a permit of each, and is charged."""
        for name, cost in costs:
            state = self.state(name)
            state.used += many
            limit = self.limit_of(name)
            for each in (cost,) * many if limit and limit.burst else (cost * many,):
                charge(limit, state, each, micros(self.now))
            self.keep_state(name)

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

    def spend(self, name: str, cost: int) -> None:
        """Charge what a job has spent besides."""
        charge(self.limit_of(name), self.state(name), cost, micros(self.now))
        self.keep_state(name)

    def pause(self, name: str, until: float, *, at_least: bool) -> None:
        """Nobody starts before then; `at_least` never shortens a pause."""
        state = self.state(name)
        if not at_least or until * SECOND > state.paused_until:
            state.paused_until = until * SECOND
            self.keep_state(name)

    # -- turns -----------------------------------------------------------------------------------

    def is_fair(self, lane: Lane) -> bool:
        """Whether a line of the lane has a fairness key."""
        return bool(self._one(_IS_FAIR, *lane)[0])

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
        """Keep the key as it is now, or forget it if its turn is past and it has no work."""
        if key.ready is None and key.turn <= self.present_turn(key.lane):
            self._do(_FORGET_KEY, *key.lane, key.name)
        else:
            self._do(_PUT_KEY, *key.lane, key.name, key.turn, *(key.ready or (None, None)))

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

    def _one(self, statement: str, *values: Any) -> Any:
        return self._tx.db.execute(statement, values).fetchone()

    def _line(self, statement: str, *values: Any) -> Line | None:
        row = self._one(statement, *values)
        return None if row is None else line_from(row)

    def _do(self, statement: str, *values: Any) -> None:
        self._tx.db.execute(statement, values)


def text_of(name: LineName) -> str:
    """What tells a line from others of its lane."""
    return as_json([name.key, *name.limits])


def pure(key: str) -> str:
    """The same of the line of this key that names no limits."""
    return as_json([key])


def at(name: LineName) -> tuple[str, str, int, str, str]:
    """The columns by which a line is found."""
    return (*name.lane, name.key, text_of(name))


def line_from(row: Row) -> Line:
    """A line as it was kept."""
    queue, scope, priority, key, text, due, sequence, costs, turn, stage, waits_for = row
    _, *limits = decode_name(text)
    line = Line(LineName(Lane(queue, scope, priority), key, tuple(limits)))
    line.due, line.sequence, line.costs = due, sequence, costs_of(costs)
    line.turn, line.stage, line.at = turn, stage, waits_for
    return line


def state_from(row: Row) -> LimitState:
    """What is used of a limit, as it was kept."""
    used, starts, full_at, paused_until = row
    return LimitState(used, decode_starts(starts), full_at, paused_until)


def limit_from(text: str | None) -> Limit | None:
    """A limit as it was kept."""
    return None if text is None else decode_limit(text)


def text_from(limit: Limit | None) -> str | None:
    """A limit as it is kept."""
    return None if limit is None else as_json(limit)


def rooms(limit: Limit | None, state: LimitState, cost: int, most: int, now: int) -> int:
    """How many jobs of this cost could start under the limit, up to `most`, if one could."""
    if limit is None:
        return most
    if limit.concurrency is not None:
        most = min(most, limit.concurrency - state.used)
    if limit.burst is not None:
        left = now + allowance(limit) - max(state.full_at, now)
        most = min(most, left // max(1, price(limit, cost)))
    elif limit.rate is not None:
        counted = sum(spent for when, spent in state.starts if when + limit.window > now)
        most = min(most, (limit.rate - counted) // cost)
    return max(1, most)


def lined_lanes(tx: Transaction) -> frozenset[Lane]:
    """The lanes in lines of which jobs stand."""
    return frozenset(lanes_from(tx, _NEXT_LANE))


def lanes_from(tx: Transaction, statement: str, *values: str) -> list[Lane]:
    """Every lane that the statement gives, from one to the next."""
    lanes: list[Lane] = []
    last: tuple[str, str, int] = ("", "", -1)
    while row := tx.db.execute(statement, (*values, *last)).fetchone():
        last = row
        lanes.append(Lane(*row))
    return lanes
