"""Lanes and limits as they were read, and a trial walk over them that changes nothing stored."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from mulligan.core.fields import CLAIM, Field
from mulligan.core.job import never_started
from mulligan.core.lane import Lane
from mulligan.core.plan import Cap, Limit, Rate, Source
from mulligan.core.validation import INVALID_RECORD
from mulligan.stores.mongo.document import (
    SECOND,
    Doc,
    lane_name,
    lane_of,
    micros,
    of_date,
    private_of,
    seconds,
    standing,
)
from mulligan.stores.mongo.fields import PRIVATE
from mulligan.stores.mongo.inbox import QUEUE, REGION, lane_for
from mulligan.stores.mongo.payload import MalformedError, count_of
from mulligan.stores.mongo.wakeup import News

# A claim writes these itself, and a body is read only if it is small.
NOT_WALKED = ("worker", "worker_region", "started_at", "body")


def is_walked(field: Field) -> bool:
    """Whether a walk, the claim or its commit needs the field."""
    needed = (CLAIM in field.carriers or field.option) and not field.readers_only
    return needed and field.name not in NOT_WALKED


SMALL = 16 * 1024
is_binary = {"$eq": [{"$type": "$mulligan.body"}, "binData"]}
size_of_body = {"$cond": [is_binary, {"$binarySize": "$mulligan.body"}, 0]}
small_body = {"$lte": [size_of_body, SMALL]}
PROJECTION: Doc = {
    "status": 1,
    "attempts": 1,
    "next_retry_at": 1,
    "updated_at": 1,
    **dict.fromkeys(
        [
            f"mulligan.{name}"
            for name in (
                *(field.name for field in PRIVATE if is_walked(field)),
                *("sequence", "expires_at", "lane", "delayed", "uncommitted", "unique_queue"),
                *("lost_key", "owes", "stamps", "updated_at", "keep"),
                *("debounce_until", "unique_until", "calls"),
            )
        ],
        1,
    ),
    "mulligan.body": {"$cond": [small_body, "$mulligan.body", "$$REMOVE"]},
}


class Candidate(Struct, frozen=True, eq=False):
    """A pending job as far as a walk needs to know it, and its document as it was read."""

    due: int
    sequence: int
    doc: Doc
    expires: int | None

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
        """The lane that it stands in, or in a line of which it does."""
        return lane_of(self.doc)

    @property
    def order(self) -> tuple[int, int]:
        """What its lane is sorted by."""
        return self.due, self.sequence

    @property
    def token(self) -> int:
        """The token that it has before it is claimed."""
        return int(self.doc["mulligan"]["token"])

    @property
    def attempts(self) -> Any:
        """How many retries it was granted, as the document has it."""
        return self.doc.get("attempts")

    def has_expired(self, now: int) -> bool:
        """Whether it should have started by now, and has not."""
        if self.expires is None or self.expires > now:
            return False
        private = self.doc["mulligan"]
        return never_started(self.attempts or 0, private["snoozes"], private["replay"])


def candidate(doc: Doc) -> Candidate:
    """The candidate that a document stands for."""
    private = doc["mulligan"]
    return Candidate(
        private["due"],
        private["sequence"],
        doc,
        private.get("expires_at"),
    )


class LimitState(Struct):
    """A limit as it was read: permits in use, starts counted, and its version."""

    used: int = 0
    starts: list[tuple[int, int]] = []
    version: int = 0


class MissingError(Exception):
    """The walk needs something that was not read: the rest of a lane, or else who sleeps."""

    def __init__(self, *, lane: str | None = None) -> None:
        self.lane = lane


class Snapshot:
    """What was read. An open-ended lane goes on after its last candidate."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.lanes: dict[str, list[Candidate]] = {}
        self.open_ended: set[str] = set()
        self.limits: dict[str, LimitState] = {}
        self.asleep: dict[str, float] | None = None
        self._foreseen: list[int] = []

    def has_come(self, now: int) -> bool:
        """It is later than when this was read; whether a document that was foreseen is due."""
        self.now = now
        return min(self._foreseen, default=now + 1) <= now

    def stand(self, lane: str, head: list[Doc], limit: int) -> None:
        """What was read of a lane; if it was as much as was asked for there may be more."""
        self.lanes[lane] = [candidate(doc) for doc in head]
        (self.open_ended.add if len(head) >= limit else self.open_ended.discard)(lane)

    def foresee(self, doc: Doc) -> None:
        """A document of another program that a worker will take in once it is due.

        Until then it is nobody's to write to, but its worker must not oversleep.
        """
        with suppress(*INVALID_RECORD, MalformedError):
            private = {"queue": QUEUE, "region": REGION, "priority": 0} | private_of(doc)
            lane = lane_for(private, count_of(doc, "attempts"))
            name, due = lane_name(lane), of_date(doc["next_retry_at"])
            if name in self.lanes and name not in self.open_ended:
                stand = standing(lane, due, 0, delayed=True) | {"queue": lane.queue}
                job = candidate({"_id": doc["_id"], "mulligan": stand})
                insort(self.lanes[name], job, key=lambda c: c.order)
                self._foreseen.append(due)


class Taken(Struct, frozen=True):
    """A job that the trial took, the limits that it met, and the permits that it will hold.

    One that stood in a `line` holds permits of the limits that it names besides.
    """

    candidate: Candidate
    limits: tuple[Limit, ...]
    permits: tuple[str, ...] = ()
    line: bool = False


class Trial:
    """A walk on a copy: what would be taken, and dropped as expired."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.now = snapshot.now
        self.lanes = {lane: list(stand) for lane, stand in snapshot.lanes.items()}
        self.used = defaultdict(int, {k: g.used for k, g in snapshot.limits.items()})
        self.starts = defaultdict(list, {k: list(g.starts) for k, g in snapshot.limits.items()})
        self.taken: list[Taken] = []
        self.expired: list[Candidate] = []
        # The keys of those that were ended for it.
        self.ended: set[Any] = set()
        # Set if another changed what the walk went by, so that it took nothing.
        self.in_vain = False

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """As the oracle asks; an exhausted lane that may go on must be read on."""
        name = lane_name(lane)
        stand = self.lanes.get(name)
        if stand:
            return seconds(stand[0].due), stand[0].sequence
        if name in self.snapshot.open_ended:
            raise MissingError(lane=name)
        return None

    def take(self, lane: Lane, limits: tuple[Limit, ...]) -> Taken | None:
        """As the oracle asks."""
        job = self.lanes[lane_name(lane)].pop(0)
        if job.has_expired(self.now):
            self.expired.append(job)
            return None
        return self.start(job, limits)

    def start(self, job: Candidate, limits: tuple[Limit, ...], *, line: bool = False) -> Taken:
        """Charge the limits of the plan for a job."""
        permits: list[str] = []
        for limit in limits:
            if isinstance(limit, Cap):
                permits.append(limit.key)
            else:
                self._count(limit)
        for permit in permits:
            self.used[permit] += 1
        taken = Taken(job, limits, tuple(permits), line)
        self.taken.append(taken)
        return taken

    def waits(self, source: Source) -> float:
        """As the oracle asks; who else sleeps is read only where a job stands in such a lane."""
        if not source.yields or not source.waited:
            return source.waited
        if self.snapshot.asleep is None:
            raise MissingError
        soonest = self.snapshot.asleep.get(lane_name(source.lane), source.waited)
        return source.waited if soonest < source.waited else 0.0

    def room(self, limit: Limit) -> int:
        """As the oracle asks."""
        if isinstance(limit, Cap):
            return limit.limit - self.used[limit.key]
        if limit.limit is None:
            return 1
        most = limit.limit
        if limit.of:
            most = max(most, int(limit.ratio * self._started(limit.of, limit.per)))
        return most - self._started(limit.key, limit.per)

    def reopens_in(self, limit: Limit) -> float | None:
        """As the oracle asks."""
        if isinstance(limit, Cap):
            return None
        first = min(at for at, _ in self._recent(limit.key, limit.per))
        return seconds(closes(first, limit.per)) - seconds(self.now)

    def heads(self, lanes: Iterable[Lane]) -> list[News]:
        """The first job that stands in each lane."""
        stands = [self.lanes.get(lane_name(lane)) for lane in lanes]
        return [News(lane_name(stand[0].lane), stand[0].due) for stand in stands if stand]

    def _started(self, key: str, per: float) -> int:
        return sum(n for _, n in self._recent(key, per))

    def _recent(self, key: str, per: float) -> list[tuple[int, int]]:
        """The starts of the window that ends now, and those of claims that began after this one."""
        return [(at, n) for at, n in self.starts[key] if closes(at, per) > self.now]

    def _count(self, rate: Rate) -> None:
        at = counted_at(rate, self.now)
        starts = dict(self.starts[rate.key])
        starts[at] = starts.get(at, 0) + 1
        self.starts[rate.key] = list(starts.items())


def closes(at: int, per: float) -> int:
    """When a window of this length that began then is over."""
    return micros(seconds(at) + per)


def counted_at(rate: Rate, now: int) -> int:
    """Fresh starts are many and need no exact window: they are counted by the second."""
    return now if rate.limit is not None else now // SECOND * SECOND
