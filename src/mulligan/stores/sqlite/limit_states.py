"""Limits that jobs name: what is stored of them, and what is used of each."""

from collections.abc import Iterable
from typing import Any

import msgspec

from mulligan.core.checks import rounded
from mulligan.core.errors import UNREADABLE
from mulligan.core.limits import (
    FOREVER,
    SECOND,
    Limit,
    LimitState,
    StoredLimit,
    allowance,
    charge,
    covering,
    idle_from,
    is_recounted,
    micros,
    price,
    recount,
    room_at,
)
from mulligan.stores.sqlite.fields import Row, as_json
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("limit_states")
_LIMITS = SQL["limits"]
_STORE_LIMIT = SQL["store_limit"]
_FORGET_LIMIT = SQL["forget_limit"]
_USED = SQL["used"]
_STATE = SQL["state"]
_PUT_STATE = SQL["put_state"]
_FORGET_STATE = SQL["forget_state"]
decode_limit = msgspec.json.Decoder(Limit).decode
decode_starts = msgspec.json.Decoder(list[tuple[int, int]]).decode


class LimitStates:
    """What a transaction reads and writes of limits; each is read once."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.now = tx.now
        self._stored: dict[str, StoredLimit] | None = None
        self._in_force: set[str] = set()
        self._states: dict[str, LimitState] = {}

    def limit_of(self, name: str) -> Limit | None:
        """What holds for the name."""
        stored = self.stored()
        by = covering(name, self._in_force)
        return None if by is None else stored[by].in_force

    def stored(self) -> dict[str, StoredLimit]:
        """Every limit that is stored."""
        if self._stored is None:
            rows = self._tx.db.execute(_LIMITS)
            self._stored = {
                name: StoredLimit(limit_from(declared), limit_from(set_instead))
                for name, declared, set_instead in rows
            }
            self._in_force = {n for n, each in self._stored.items() if each.in_force is not None}
        return self._stored

    def keep(self, name: str, limit: StoredLimit) -> None:
        """Store a limit; delete one that neither an app nor an operator has set."""
        every = [used for (used,) in self._tx.db.execute(_USED)]
        before = {used: self.limit_of(used) for used in every if covering(used, [name])}
        if limit.in_force is None:
            self._do(_FORGET_LIMIT, name)
        else:
            self._do(_STORE_LIMIT, name, text_from(limit.declared), text_from(limit.set))
        self._stored = None
        for used, was in before.items():
            now = self.limit_of(used)
            if is_recounted(was, now) and recount(was, now, self.state(used), micros(self.now)):
                self.keep_state(used)

    def room_at(self, limit: str, cost: int) -> float:
        """When the limit has room for the cost."""
        when = room_at(self.limit_of(limit), self.state(limit), cost, micros(self.now))
        return when if when == FOREVER else max(self.now, rounded(when / SECOND))

    def state(self, name: str) -> LimitState:
        """What is used of a name."""
        if name not in self._states:
            row = self._one(_STATE, name)
            self._states[name] = LimitState(starts=[]) if row is None else state_from(row)
        return self._states[name]

    def keep_state(self, name: str) -> None:
        """Write what is used of a name; delete it if nothing is."""
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

    def _one(self, statement: str, *values: Any) -> Any:
        return self._tx.db.execute(statement, values).fetchone()

    def _do(self, statement: str, *values: Any) -> int:
        return self._tx.db.execute(statement, values).rowcount


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


def state_from(row: Row) -> LimitState:
    """What is used of a limit, from its page; starts that cannot be read are none."""
    used, text, full_at, paused_until = row
    try:
        starts = decode_starts(text)
    except UNREADABLE:
        starts = []
    return LimitState(used, starts, full_at, paused_until)


def limit_from(text: str | None) -> Limit | None:
    """A limit as it was kept; None if it cannot be read, until an app declares it again."""
    try:
        return None if text is None else decode_limit(text)
    except UNREADABLE:
        return None


def text_from(limit: Limit | None) -> str | None:
    """A limit as it is kept."""
    return None if limit is None else as_json(limit)
