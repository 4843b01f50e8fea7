"""Lanes and gates as they were read, and a trial walk over them that changes nothing stored."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from mulligan.core.damage import DAMAGE
from mulligan.core.job import never_started
from mulligan.core.lane import Lane
from mulligan.core.plan import Cap, Limit, Rate, Source
from mulligan.stores.mongo.base import Doc, line_of
from mulligan.stores.mongo.bells import News
from mulligan.stores.mongo.documents import lane_of, private_of, standing
from mulligan.stores.mongo.foreign import QUEUE, REGION, MalformedError, count_of, lane_for
from mulligan.stores.mongo.times import SECOND, micros, of_date, seconds


class Candidate(Struct, frozen=True, eq=False):
    """A pending job as far as a walk needs to know it, and its document as it was read."""

    due: int
    sequence: int
    doc: Doc
    expires: int | None
    limit_key: str | None

    @property
    def key(self) -> Any:
        """The key of its document."""
        return self.doc["_id"]

    @property
    def job(self) -> str:
        """Its id."""
        return str(self.doc["_id"])

    @property
    def lane(self) -> Lane:
        """The lane that it stands in, or stood in before it was set aside."""
        return lane_of(self.doc)

    @property
    def order(self) -> tuple[int, int]:
        """Its place in its lane."""
        return self.due, self.sequence

    @property
    def token(self) -> int:
        """The token that it has before it is claimed."""
        return int(self.doc["mulligan"]["token"])

    @property
    def attempts(self) -> Any:
        """How many retries it was granted, as the document has it."""
        return self.doc.get("attempts")

    @property
    def limit(self) -> int:
        """How many jobs of its concurrency key may run at a time."""
        return int(self.doc["mulligan"].get("key_limit", 1))

    @property
    def permit(self) -> str | None:
        """The gate that its concurrency key stands for."""
        return None if self.limit_key is None else f"key:{self.limit_key}"

    def has_expired(self, now: int) -> bool:
        """Whether it should have started by now, and has not."""
        if self.expires is None or self.expires > now:
            return False
        private = self.doc["mulligan"]
        return never_started(self.attempts or 0, private["snoozes"], private["replay"])


# What a walk, the claim and its commit need of a document; a body only if it is small.
SMALL = 16 * 1024
is_binary = {"$eq": [{"$type": "$mulligan.body"}, "binData"]}
size_of_body = {"$cond": [is_binary, {"$binarySize": "$mulligan.body"}, 0]}
small_body = {"$lte": [size_of_body, SMALL]}
FIELDS: Doc = {
    "status": 1,
    "attempts": 1,
    "next_retry_at": 1,
    "updated_at": 1,
    **dict.fromkeys(
        [
            f"mulligan.{name}"
            for name in (
                *("task", "queue", "region", "priority", "scope", "lane_priority", "line"),
                *("due", "sequence", "delayed", "expires", "replay", "snoozes", "trail"),
                *("token", "since", "key", "key_limit", "unique_queue", "unique_key", "lost_key"),
                *("gather", "gather_index", "owes", "awaits", "stamps", "touched"),
            )
        ],
        1,
    ),
    "mulligan.body": {"$cond": [small_body, "$mulligan.body", "$$REMOVE"]},
}


def candidate(doc: Doc) -> Candidate:
    """The candidate that a document stands for."""
    private = doc["mulligan"]
    return Candidate(
        private["due"], private["sequence"], doc, private.get("expires"), private.get("key")
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
        self.limits: dict[str, GateState] = {}
        self.held: dict[str, list[Candidate]] = {}
        self.asleep: dict[str, float] | None = None

    def stand(self, line: str, front: list[Doc], limit: int) -> None:
        """What was read of a lane; if it was as much as was asked for there may be more."""
        self.lines[line] = [candidate(doc) for doc in front]
        (self.open_ended.add if len(front) >= limit else self.open_ended.discard)(line)

    def ends_before(self, job: Candidate) -> bool:
        """Whether others of its lane that were not read may stand before the job."""
        line = line_of(job.lane)
        return line in self.open_ended and self.lines[line][-1].order < job.order

    def foresee(self, doc: Doc) -> None:
        """A document of another program that a worker will take in once it is due.

        Until then it is nobody's to write to, but its worker must not oversleep.
        """
        with suppress(*DAMAGE, MalformedError):
            private = {"queue": QUEUE, "region": REGION, "priority": 0} | private_of(doc)
            lane = lane_for(private, count_of(doc, "attempts"))
            line, due = line_of(lane), of_date(doc["next_retry_at"])
            if line in self.lines and line not in self.open_ended:
                stand = standing(lane, due, 0, delayed=True) | {"queue": lane.queue}
                job = candidate({"_id": doc["_id"], "mulligan": stand})
                insort(self.lines[line], job, key=lambda c: c.order)


class Taken(Struct, frozen=True):
    """A job that the trial took, the gates that it passed, and the permits that it will hold."""

    candidate: Candidate
    limits: tuple[Limit, ...]
    permits: tuple[str, ...] = ()


class Trial:
    """A walk on a copy: what would be taken, held, dropped as expired and let go."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.now = snapshot.now
        self.lines = {line: list(stand) for line, stand in snapshot.lines.items()}
        self.used = defaultdict(int, {k: g.used for k, g in snapshot.limits.items()})
        self.starts = defaultdict(list, {k: list(g.starts) for k, g in snapshot.limits.items()})
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

    def take(self, lane: Lane, gates: tuple[Limit, ...]) -> Taken | None:
        """As the oracle asks."""
        job = self.lines[line_of(lane)].pop(0)
        if job.has_expired(self.now):
            self.expired.append(job)
            if job.permit is not None:
                self._let_one_go(job.limit_key or "", job.permit)
            return None
        permits: list[str] = []
        if job.permit is not None:
            if self.used[job.permit] >= job.limit:
                self.held.append(job)
                return None
            permits.append(job.permit)
        for gate in gates:
            if isinstance(gate, Cap):
                permits.append(gate.key)
            else:
                self._count(gate)
        for permit in permits:
            self.used[permit] += 1
        taken = Taken(job, gates, tuple(permits))
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

    def room(self, gate: Limit) -> int:
        """As the oracle asks."""
        if isinstance(gate, Cap):
            return gate.limit - self.used[gate.key]
        if gate.limit is None:
            return 1
        limit = gate.limit
        if gate.of:
            limit = max(limit, int(gate.ratio * self._started(gate.of, gate.per)))
        return limit - self._started(gate.key, gate.per)

    def reopens_in(self, gate: Limit) -> float | None:
        """As the oracle asks."""
        if isinstance(gate, Cap):
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
            if not self.snapshot.ends_before(job):
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
