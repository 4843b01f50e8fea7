"""Lanes and gates as they were read, and a trial walk over them that changes nothing stored."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from mulligan.core.lane import Lane
from mulligan.core.plan import Gate, Rate, Running, Source
from mulligan.stores.mongo.base import Doc, line_of
from mulligan.stores.mongo.bells import News
from mulligan.stores.mongo.documents import lane_of
from mulligan.stores.mongo.times import SECOND, micros, seconds


class Candidate(Struct, frozen=True):
    """A pending job as far as a walk needs to know it."""

    due: int
    sequence: int
    key: Any
    job: str
    lane: Lane
    token: int
    retried: bool
    expires: int | None
    limit_key: str | None
    limit: int
    gather: str | None

    @property
    def order(self) -> tuple[int, int]:
        """Its place in its lane."""
        return self.due, self.sequence

    @property
    def permit(self) -> str | None:
        """The gate that its concurrency key stands for."""
        return None if self.limit_key is None else f"key:{self.limit_key}"


FIELDS = {
    "status": 1,
    "attempts": 1,
    "next_retry_at": 1,
    **{
        f"mulligan.{name}": 1
        for name in (
            "queue",
            "scope",
            "lane_priority",
            "due",
            "sequence",
            "delayed",
            "token",
            "expires",
            "key",
            "key_limit",
            "line",
            "gather",
        )
    },
}


def candidate(doc: Doc) -> Candidate:
    """The candidate that a document stands for."""
    private = doc["mulligan"]
    return Candidate(
        private["due"],
        private["sequence"],
        doc["_id"],
        str(doc["_id"]),
        lane_of(doc),
        private["token"],
        bool(doc.get("attempts")),
        private.get("expires"),
        private.get("key"),
        private.get("key_limit", 1),
        private.get("gather"),
    )


class GateState(Struct):
    """A gate as it was read: permits out, starts counted, and its version."""

    used: int = 0
    starts: list[tuple[int, int]] = []
    version: int = 0


class MissingError(Exception):
    """The walk needs something that was not read.

    The rest of a lane, a key's held jobs, or with neither who sleeps.
    """

    def __init__(self, *, line: str | None = None, held: str | None = None) -> None:
        self.line = line
        self.held = held


class Snapshot:
    """What was read. A line that is not complete goes on after its last candidate."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.lines: dict[str, list[Candidate]] = {}
        self.open_ended: set[str] = set()
        self.gates: dict[str, GateState] = {}
        self.held: dict[str, list[Candidate]] = {}
        self.asleep: dict[str, float] | None = None


class Taken(Struct, frozen=True):
    """A job that the trial took, and the permits that it needs for it."""

    candidate: Candidate
    gates: tuple[Gate, ...]

    @property
    def permits(self) -> tuple[str, ...]:
        """The keys of the permits that the job will hold."""
        own = (self.candidate.permit,) if self.candidate.permit else ()
        return own + tuple(gate.key for gate in self.gates if isinstance(gate, Running))


class Trial:
    """A walk on a copy: what would be taken, held, dropped as expired and let go."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.now = snapshot.now
        self.lines = {line: list(stand) for line, stand in snapshot.lines.items()}
        self.used = defaultdict(int, {k: g.used for k, g in snapshot.gates.items()})
        self.starts = defaultdict(list, {k: list(g.starts) for k, g in snapshot.gates.items()})
        self.taken: list[Taken] = []
        self.held: list[Candidate] = []
        self.expired: list[Candidate] = []
        self.let_go: list[Candidate] = []

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """As the oracle asks; an exhausted line that may go on must be read further."""
        line = line_of(lane)
        stand = self.lines.get(line)
        if stand:
            return seconds(stand[0].due), stand[0].sequence
        if line in self.snapshot.open_ended:
            raise MissingError(line=line)
        return None

    def take(self, lane: Lane, gates: tuple[Gate, ...]) -> Taken | None:
        """As the oracle asks."""
        job = self.lines[line_of(lane)].pop(0)
        if job.token == 0 and job.expires is not None and job.expires <= self.now:
            self.expired.append(job)
            if job.permit is not None:
                self._let_one_go(job.limit_key or "", job.permit)
            return None
        if job.permit is not None:
            if self.used[job.permit] >= job.limit:
                self.held.append(job)
                return None
            self.used[job.permit] += 1
        for gate in gates:
            if isinstance(gate, Running):
                self.used[gate.key] += 1
            else:
                self._count(gate)
        taken = Taken(job, gates)
        self.taken.append(taken)
        return taken

    def waits(self, source: Source) -> float:
        """As the oracle asks; who else sleeps is read only where a job stands in such a lane."""
        if not source.yields or not source.waited:
            return source.waited
        if self.snapshot.asleep is None:
            raise MissingError
        soonest = self.snapshot.asleep.get(line_of(source.lane), source.waited)
        return source.waited if soonest < source.waited else 0.0

    def room(self, gate: Gate) -> int:
        """As the oracle asks."""
        if isinstance(gate, Running):
            return gate.limit - self.used[gate.key]
        if gate.limit is None:
            return 1
        limit = gate.limit
        if gate.of:
            limit = max(limit, int(gate.ratio * self._started(gate.of, gate.per)))
        return limit - self._started(gate.key, gate.per)

    def reopens_in(self, gate: Gate) -> float | None:
        """As the oracle asks."""
        if isinstance(gate, Running):
            return None
        first = min(at for at, _ in self._recent(gate.key, gate.per))
        return seconds(closes(first, gate.per)) - seconds(self.now)

    def fronts(self, lanes: Iterable[Lane]) -> list[News]:
        """The first job that stands in each lane."""
        stands = [self.lines.get(line_of(lane)) for lane in lanes]
        return [News(line_of(stand[0].lane), stand[0].due) for stand in stands if stand]

    def _started(self, key: str, per: float) -> int:
        return sum(n for _, n in self._recent(key, per))

    def _recent(self, key: str, per: float) -> list[tuple[int, int]]:
        """The starts of the window that ends now, and those of claims that began after this one."""
        return [(at, n) for at, n in self.starts[key] if closes(at, per) > self.now]

    def _count(self, gate: Rate) -> None:
        at = counted_at(gate, self.now)
        starts = dict(self.starts[gate.key])
        starts[at] = starts.get(at, 0) + 1
        self.starts[gate.key] = list(starts.items())

    def _let_one_go(self, key: str, permit: str) -> None:
        if key not in self.snapshot.held:
            raise MissingError(held=key)
        gone = set(self.let_go)
        waiting = [job for job in self.snapshot.held[key] if job not in gone]
        waiting += [job for job in self.held if job.limit_key == key]
        for job in first_of_each(waiting, self.used[permit]):
            if job in self.held:
                self.held.remove(job)
            else:
                self.let_go.append(job)
            insort(self.lines.setdefault(line_of(job.lane), []), job, key=lambda c: c.order)


def closes(at: int, per: float) -> int:
    """When a window of this length that began then is over."""
    return micros(seconds(at) + per)


def counted_at(gate: Rate, now: int) -> int:
    """Fresh starts are many and need no exact window: they are counted by the second."""
    return now if gate.limit is not None else now // SECOND * SECOND


def first_of_each(held: list[Candidate], used: int) -> list[Candidate]:
    """The first held job of each lane and limit that has room."""
    first: dict[tuple[Lane, int], Candidate] = {}
    for job in held:
        place = (job.lane, job.limit)
        if job.limit > used and (place not in first or job.order < first[place].order):
            first[place] = job
    return list(first.values())
