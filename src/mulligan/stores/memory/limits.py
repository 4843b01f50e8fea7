"""Permits, counted starts, and the jobs that wait for a permit of their concurrency key."""

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from mulligan.core.checks import rounded
from mulligan.core.plan import Cap, Limit, Rate
from mulligan.stores.memory.fields import Record

if TYPE_CHECKING:
    from mulligan.core.lane import Lane


class Limits:
    """Which jobs hold which permits, how many starts were counted when, and which jobs wait."""

    def __init__(self) -> None:
        self._holders: dict[str, set[str]] = defaultdict(set)
        self._starts: dict[str, deque[tuple[float, int]]] = defaultdict(deque)
        self._held: dict[str, list[Record]] = defaultdict(list)

    def used(self, key: str) -> int:
        """How many jobs hold a permit of this key."""
        return len(self._holders[key])

    def charge(self, key: str, record: Record) -> None:
        """Give the job a permit."""
        self._holders[key].add(record.new.id)
        record.permits.append(key)

    def free(self, record: Record) -> list[str]:
        """Take back all permits of the job, and say which it had."""
        freed, record.permits = record.permits, []
        for key in freed:
            self._holders[key].discard(record.new.id)
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

    def hold_back(self, key: str, record: Record) -> None:
        """Keep the job out of its lane until the key has room."""
        record.held = True
        self._held[key].append(record)

    def drop(self, record: Record) -> None:
        """Hold the job back no longer, because it has ended."""
        if record.held:
            record.held = False
            self._held[record.key or ""].remove(record)

    def let_go(self, key: str) -> list[Record]:
        """The jobs that the key holds back no longer: the first of each lane, if there is room."""
        used = self.used(key)
        first: dict[tuple[Lane, int], Record] = {}
        for record in self._held[key]:
            limit = record.new.concurrency_limit
            best = first.get((record.lane, limit))
            if limit > used and (
                best is None or (record.due, record.sequence) < (best.due, best.sequence)
            ):
                first[record.lane, limit] = record
        for record in first.values():
            self._held[key].remove(record)
        return list(first.values())
