"""Lanes in plain lists, and a fetch loop without a worker: what the walk needs, and no more."""

from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple

from mulligan.core.facts import Facts, QueueSettings
from mulligan.core.fairness import KINDS, Carry, ClaimCounts, plan_claim, settle
from mulligan.core.fetch import Only
from mulligan.core.lane import Lane, Priority
from mulligan.core.plan import Cap, Kind, Limit, Rate, Source, walk

HERE = "here"
PRIORITY: dict[Kind, Priority] = {
    "urgent": Priority.URGENT,
    "retry": Priority.RETRY,
    "fresh": Priority.NORMAL,
}


class Start(NamedTuple):
    """A job that was taken: the lane it stood in, and its place there."""

    lane: Lane
    due: float
    sequence: int

    @property
    def kind(self) -> Kind:
        """What the shares count it as."""
        if self.lane.is_urgent:
            return "urgent"
        return "retry" if self.lane.is_retry else "fresh"


class ListLines:
    """The lanes of a store at one instant, `now`; the test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lanes: dict[Lane, list[tuple[float, int]]] = defaultdict(list)
        self.permits: dict[str, int] = defaultdict(int)
        self.starts: dict[str, deque[float]] = defaultdict(deque)
        self.saturated: set[int] = set()
        self.awaited: set[Lane] = set()
        self.aside: list[int] = []
        self._sequence = 0

    def put(self, lane: Lane, due: float | None = None) -> int:
        """Let a job join the lane, and say its sequence."""
        self._sequence += 1
        insort(self.lanes[lane], (self.now if due is None else due, self._sequence))
        return self._sequence

    def head(self, lane: Lane) -> tuple[float, int] | None:
        line = self.lanes.get(lane)
        return line[0] if line else None

    def take(self, lane: Lane, limits: tuple[Limit, ...]) -> Start | None:
        due, sequence = self.lanes[lane].pop(0)
        if sequence in self.saturated:
            self.aside.append(sequence)
            return None
        for limit in limits:
            if isinstance(limit, Cap):
                self.permits[limit.key] += 1
            else:
                self.starts[limit.key].append(self.now)
        return Start(lane, due, sequence)

    def waits(self, source: Source) -> float:
        return 0.0 if source.yields and source.lane not in self.awaited else source.waited

    def room(self, limit: Limit) -> int:
        if isinstance(limit, Cap):
            return limit.limit - self.permits[limit.key]
        return 1 if limit.limit is None else limit.limit - self._started(limit)

    def reopens_in(self, limit: Limit) -> float | None:
        if isinstance(limit, Cap):
            return None
        return self.starts[limit.key][0] + limit.per - self.now

    def _started(self, limit: Rate) -> int:
        starts = self.starts[limit.key]
        while starts and starts[0] <= self.now - limit.per:
            starts.popleft()
        return len(starts)

    def waiting(self, queue: str, kind: Kind) -> int:
        """How many jobs of the kind stand in the queue."""
        return sum(
            len(line)
            for lane, line in self.lanes.items()
            if lane.queue == queue and Start(lane, 0.0, 0).kind == kind
        )


class Fetch:
    """Plan, walk and settle, again and again, as a worker's fetcher does."""

    def __init__(
        self,
        settings: QueueSettings,
        queues: Sequence[str] = ("q",),
        only: Only | None = None,
        lines: ListLines | None = None,
    ) -> None:
        self.lines = lines or ListLines()
        self.facts = Facts(queues=dict.fromkeys(queues, settings))
        self.carries = {queue: Carry() for queue in queues}
        self.turn = list(queues)
        self.only = only

    def add(self, kind: Kind, count: int = 1, queue: str = "q") -> None:
        """Let jobs of this kind join the worker's region's lane."""
        for _ in range(count):
            self.lines.put(Lane(queue, HERE, PRIORITY[kind]))

    def fill(self, kind: Kind, count: int, queue: str = "q") -> None:
        """Let so many join that at least `count` of the kind stand in the queue."""
        self.add(kind, count - self.lines.waiting(queue, kind), queue)

    def waits(self, kind: Kind, queue: str = "q") -> bool:
        """Whether a job of the kind stands in the queue."""
        return self.lines.waiting(queue, kind) > 0

    def claim(self, demand: int = 1) -> list[Start]:
        """The jobs that a worker with this many free slots starts next."""
        self.turn.append(self.turn.pop(0))
        queues = [(queue, self.carries[queue]) for queue in self.turn]
        plan = plan_claim(demand, HERE, queues, self.facts, self.only)
        walked = walk(plan, self.lines, self.lines.now)
        left = {(g.queue, g.kind) for g, more in zip(plan.groups, walked.left, strict=True) if more}
        for queue in self.turn:
            started = Counter(s.kind for s in walked.taken if s.lane.queue == queue)
            waiting = frozenset(kind for kind in KINDS if (queue, kind) in left)
            counts = ClaimCounts(started["urgent"], started["retry"], started["fresh"], waiting)
            self.carries[queue] = settle(self.carries[queue], counts, self.facts.queue(queue))
        return walked.taken
