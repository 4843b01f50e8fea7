"""Limits that jobs name: what is used of each, as one change of the book reads and writes it."""

from collections.abc import Iterable

from mulligan.core.checks import rounded
from mulligan.core.limits import FOREVER, Limit, LimitState, charge, idle_from, room_at
from mulligan.stores.mongo.document import SECOND, seconds
from mulligan.stores.mongo.ledger import Root, StoredLimits, Work
from mulligan.stores.mongo.line_pages import state_key
from mulligan.stores.mongo.pages import Pages


class LimitStates(Work):
    """What a change of the book reads and writes of limits; each is read once."""

    def __init__(self, pages: Pages, root: Root, stored: StoredLimits, now: int) -> None:
        super().__init__(pages, root, stored, now)
        self.now = seconds(self.at)
        # Of each name what is used, and the leases that hold its permits.
        self._states: dict[str, tuple[LimitState, list[str]]] = {}
        # The limits whose pages are to be written in the end.
        self._charged: set[str] = set()

    def room_at(self, limit: str, cost: int) -> float:
        """When the limit has room for the cost."""
        when = room_at(self.limit_of(limit), self.state(limit), cost, self.at)
        return when if when == FOREVER else max(self.now, rounded(when / SECOND))

    def limit_of(self, name: str) -> Limit | None:
        """What holds for the name."""
        return self.stored.limit_of(name)

    def state(self, name: str) -> LimitState:
        """What is used of a name."""
        return self._state(name)[0]

    def _state(self, name: str) -> tuple[LimitState, list[str]]:
        """What is used of a name, and the leases that hold its permits."""
        if name not in self._states:
            page = self.draft.page(state_key(name))
            if page is None:
                self._states[name] = LimitState(starts=[]), []
            else:
                starts = [(at, cost) for at, cost in page["starts"]]
                holders = list(page["holders"])
                state = LimitState(len(holders), starts, page["full_at"], page["paused_until"])
                self._states[name] = state, holders
        return self._states[name]

    def keep_state(self, name: str) -> None:
        """Keep what is used of a name, or forget it if that says nothing."""
        state, holders = self._state(name)
        state.used = len(holders)
        if idle_from(self.limit_of(name), state) <= self.at:
            del self._states[name]
            self._charged.discard(name)
            self.draft.drop(state_key(name))
        else:
            self._charged.add(name)

    def close(self) -> None:
        """Write what is used of limits: once, however many jobs were charged to them."""
        for name in sorted(self._charged):
            state, holders = self._state(name)
            self.draft.put(
                {
                    "_id": state_key(name),
                    "state": name,
                    "holders": list(holders),
                    "starts": [list(each) for each in state.starts],
                    "full_at": state.full_at,
                    "paused_until": state.paused_until,
                }
            )

    def start(self, costs: Iterable[tuple[str, int]], holder: str) -> None:
        """A job starts that names these limits: it holds a permit of each, and is charged."""
        for name, cost in costs:
            state, holders = self._state(name)
            holders.append(holder)
            charge(self.limit_of(name), state, cost, self.at)
            self.keep_state(name)

    def spend(self, name: str, cost: int) -> None:
        """Charge what a job has spent besides."""
        charge(self.limit_of(name), self.state(name), cost, self.at)
        self.keep_state(name)

    def pause(self, name: str, until: float, *, at_least: bool) -> None:
        """Nobody starts before then; `at_least` never shortens a pause."""
        state = self.state(name)
        if not at_least or until * SECOND > state.paused_until:
            state.paused_until = until * SECOND
            self.keep_state(name)
