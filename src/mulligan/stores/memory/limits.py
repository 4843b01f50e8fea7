"""What is used of limits: those of plans, by key, and those that jobs name."""

from collections import defaultdict, deque

from mulligan.core.checks import rounded
from mulligan.core.limits import (
    FOREVER,
    SECOND,
    LimitState,
    LimitView,
    StoredLimit,
    charge,
    costs_of,
    covering,
    idle_from,
    micros,
    recount,
    refund,
    room_at,
    view_of,
)
from mulligan.core.limits import Limit as NamedLimit
from mulligan.core.plan import Cap, Limit, Rate
from mulligan.stores.memory.fields import StoredJob

# Of how many names is remembered which limit covers them.
COVERING_KEPT = 10_000


class Limits:
    """Which jobs hold which permits, and how many starts were counted when."""

    def __init__(self) -> None:
        self._holders: dict[str, set[str]] = defaultdict(set)
        self._starts: dict[str, deque[tuple[float, int]]] = defaultdict(deque)
        self.stored: dict[str, StoredLimit] = {}
        self._in_force: set[str] = set()
        self.states: dict[str, LimitState] = {}
        self._covering: dict[str, str | None] = {}

    def used(self, key: str) -> int:
        """How many jobs hold a permit of this key."""
        return len(self._holders[key])

    def charge(self, key: str, stored: StoredJob) -> None:
        """Give the job a permit."""
        self._holders[key].add(stored.id)
        stored.permits.append(key)

    def free(self, stored: StoredJob) -> list[str]:
        """Take back all permits of the job, and say which it had."""
        freed, stored.permits = stored.permits, []
        for key in freed:
            self._holders[key].discard(stored.id)
        return freed

    def room(self, limit: Limit, now: float) -> int:
        """How many more starts the limit allows now."""
        if isinstance(limit, Cap):
            return limit.limit - self.used(limit.key)
        if limit.limit is None:
            return 1
        most = limit.limit
        if limit.of:
            most = max(most, int(limit.ratio * self._started(limit.of, limit.per, now)))
        return most - self._started(limit.key, limit.per, now)

    def reopens_in(self, limit: Limit, now: float) -> float | None:
        """Seconds until a closed limit opens by itself; None for a cap, which never does."""
        if isinstance(limit, Cap):
            return None
        return rounded(self._starts[limit.key][0][0] + limit.per) - now

    def count(self, rate: Rate, now: float) -> None:
        """Count a start."""
        # Fresh starts are many and need no exact window: a second each is enough, rounded down.
        at = now if rate.limit is not None else float(int(now))
        starts = self._starts[rate.key]
        if starts and starts[-1][0] == at:
            starts[-1] = (at, starts[-1][1] + 1)
        else:
            starts.append((at, 1))

    def _started(self, key: str, per: float, now: float) -> int:
        starts = self._starts[key]
        while starts and rounded(starts[0][0] + per) <= now:
            starts.popleft()
        return sum(count for _, count in starts)

    # -- named limits ----------------------------------------------------------------------------

    def limit_of(self, name: str) -> NamedLimit | None:
        """What holds for the name."""
        if name not in self._covering:
            if len(self._covering) > COVERING_KEPT:
                self._covering.clear()
            self._covering[name] = covering(name, self._in_force)
        by = self._covering[name]
        return None if by is None else self.stored[by].in_force

    def store(self, name: str, stored: StoredLimit, now: float) -> None:
        """Keep a limit; one that says nothing any more is forgotten."""
        covered = [each for each in self.states if covering(each, [name]) is not None]
        before = {each: self.limit_of(each) for each in covered}
        if stored.in_force is None:
            self.stored.pop(name, None)
            self._in_force.discard(name)
        else:
            self.stored[name] = stored
            self._in_force.add(name)
        self._covering.clear()
        for each, was in before.items():
            recount(was, self.limit_of(each), self.states[each], micros(now))
            self.forget(each, now)

    def state(self, name: str) -> LimitState:
        """What is used of a name."""
        return self.states.get(name) or LimitState()

    def room_at(self, name: str, cost: int, now: float) -> float:
        """When the limit has room for the cost, in the store's time."""
        at = room_at(self.limit_of(name), self.state(name), cost, micros(now))
        return at if at == FOREVER else max(now, rounded(at / SECOND))

    def start(self, stored: StoredJob, now: float) -> None:
        """A job starts: it holds a permit of each of its limits, and is charged for each."""
        stored.held = stored.limits
        for name, cost in costs_of(stored.held):
            state = self.states.setdefault(name, LimitState())
            state.used += 1
            charge(self.limit_of(name), state, cost, micros(now))

    def spend(self, name: str, cost: int, now: float) -> None:
        """Charge what a job has spent besides."""
        charge(self.limit_of(name), self.states.setdefault(name, LimitState()), cost, micros(now))
        self.forget(name, now)

    def pause(self, name: str, until: float, *, at_least: bool) -> None:
        """Nobody starts before then; `at_least` never shortens a pause."""
        if not at_least or until * SECOND > self.state(name).paused_until:
            self.states.setdefault(name, LimitState()).paused_until = until * SECOND

    def end(self, stored: StoredJob, now: float, *, refunded: bool) -> tuple[str, ...]:
        """A job holds no permit any more; it is refunded what it never used. Says of which."""
        names, stored.held = costs_of(stored.held), None
        for name, cost in names:
            state = self.states[name]
            state.used -= 1
            if refunded:
                started = micros(stored.started_at or now)
                refund(self.limit_of(name), state, cost, started, micros(now))
            self.forget(name, now)
        return tuple(name for name, _ in names)

    def view(self, name: str, waiting: int, now: float) -> LimitView:
        """The limit as a reader sees it."""
        stored, state = self.stored.get(name, StoredLimit()), self.state(name)
        return view_of(name, stored, self.limit_of(name), state, waiting=waiting, now=now)

    def forget(self, name: str, now: float) -> None:
        """Forget the state of a name if it says nothing any more."""
        state = self.states.get(name)
        if state is not None and idle_from(self.limit_of(name), state) <= micros(now):
            del self.states[name]
