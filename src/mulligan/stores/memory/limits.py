"""Permits and counted starts: what the gates of a plan are charged against."""

from collections import defaultdict, deque

from mulligan.core.durations import rounded
from mulligan.core.plan import Cap, Limit, Rate


class Limits:
    """Who holds which permit, and how many starts were counted when."""

    def __init__(self) -> None:
        self._holders: dict[str, set[str]] = defaultdict(set)
        self._starts: dict[str, deque[tuple[float, int]]] = defaultdict(deque)

    def held(self, key: str) -> int:
        """How many jobs hold a permit of this key."""
        return len(self._holders[key])

    def hold(self, key: str, job: str) -> None:
        """Give the job a permit."""
        self._holders[key].add(job)

    def free(self, key: str, job: str) -> None:
        """Take the job's permit back."""
        self._holders[key].discard(job)

    def room(self, gate: Limit, now: float) -> int:
        """How many more starts the gate allows now."""
        if isinstance(gate, Cap):
            return gate.limit - self.held(gate.key)
        if gate.limit is None:
            return 1
        limit = gate.limit
        if gate.of:
            limit = max(limit, int(gate.ratio * self._started(gate.of, gate.per, now)))
        return limit - self._started(gate.key, gate.per, now)

    def reopens_in(self, gate: Limit, now: float) -> float | None:
        """Seconds until a closed gate opens by itself."""
        if isinstance(gate, Cap):
            return None
        return rounded(self._starts[gate.key][0][0] + gate.per) - now

    def count(self, gate: Rate, now: float) -> None:
        """Count a start."""
        # Fresh starts are many and need no exact window: a second each is enough, rounded down.
        at = now if gate.limit is not None else float(int(now))
        starts = self._starts[gate.key]
        if starts and starts[-1][0] == at:
            starts[-1] = (at, starts[-1][1] + 1)
        else:
            starts.append((at, 1))

    def _started(self, key: str, per: float, now: float) -> int:
        starts = self._starts[key]
        while starts and rounded(starts[0][0] + per) <= now:
            starts.popleft()
        return sum(count for _, count in starts)
