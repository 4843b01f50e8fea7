"""The log of a simulation: its attempts and events."""

from array import array
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from typing import Literal, NamedTuple

from mulligan.core.job import Claim
from mulligan.core.lane import Lane

EventName = Literal[
    "start", "done", "fail", "retry-due", "dead", "reclaimed", "breaker-open", "breaker-close"
]
Ending = Literal["done", "failed", "crashed", "running"]


class Event(NamedTuple):
    """Something that happened to a job, and in which region; a retry falls due in its own.

    For a breaker that opens or closes, job and lane are empty.
    """

    t: float
    job: str
    region: str
    event: EventName
    attempt: int
    lane: str


class Attempt:
    """One attempt: which lane it came from, where it ran and how it ended.

    `home` is the region of the job, `before` the one that failed it last.
    """

    __slots__ = (
        "before", "due", "ended", "ending", "home", "job", "lane", "number", "region",
        "sequence", "started", "worker",
    )  # fmt: skip

    def __init__(self, claim: Claim, sequence: int, before: str | None) -> None:
        self.job = claim.id
        self.number = claim.retry_count + 1
        self.home = claim.region
        self.lane = label(claim.scope, claim.lane_priority)
        self.due = claim.due
        self.sequence = sequence
        self.region = claim.worker_region
        self.worker = claim.worker
        self.before = before
        self.started = self.ended = claim.started_at
        self.ending: Ending = "running"

    @property
    def is_retry(self) -> bool:
        """Whether the job had failed before, if only in a probe that left its number as it was."""
        return self.before is not None


class Waiting(NamedTuple):
    """A pending job, due or not."""

    lane: str
    due: float
    is_retry: bool


class Switch(NamedTuple):
    """A breaker that opened or closed."""

    at: float
    region: str
    opened: bool


class Notes:
    """What happened when, in columns: of a million attempts there are two million notes."""

    def __init__(self) -> None:
        self._times = array("d")
        self._names: list[EventName] = []
        self._of: list[Attempt | Switch] = []
        self._lanes: list[str] = []

    def __iter__(self) -> Iterator[tuple[float, EventName, Attempt | Switch, str]]:
        return zip(self._times, self._names, self._of, self._lanes, strict=True)

    def add(self, at: float, name: EventName, of: Attempt | Switch, lane: str) -> None:
        """Note that it happened."""
        self._times.append(at)
        self._names.append(name)
        self._of.append(of)
        self._lanes.append(lane)

    def forget_start(self, attempt: Attempt) -> None:
        """Drop the one note, a late one, of an attempt that never began."""
        index = next(i for i in reversed(range(len(self._of))) if self._of[i] is attempt)
        for column in (self._times, self._names, self._of, self._lanes):
            del column[index]


class Log:
    """Everything that happened, in order; `waiting` are the jobs left at the end.

    Events are made from it when they are read.
    """

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.switches: list[Switch] = []
        self.waiting: list[Waiting] = []
        self.running: dict[str, Attempt] = {}
        self.done = 0
        self.dead = 0
        self.reclaims = 0
        self.last_end = 0.0
        self._before: dict[str, str] = {}
        self._notes = Notes()

    @property
    def events(self) -> list[Event]:
        """All events in the order of time; those of one instant, cause before effect."""
        return [event_of(*note) for note in sorted(self._notes, key=itemgetter(0))]

    def started(self, claim: Claim, sequence: int) -> None:
        """A worker began an attempt."""
        attempt = Attempt(claim, sequence, self._before.get(claim.id))
        self.running[attempt.job] = attempt
        self.attempts.append(attempt)
        self._notes.add(attempt.started, "start", attempt, attempt.lane)

    def succeeded(self, job: str, at: float) -> None:
        """The attempt did its work, and the job is done."""
        attempt = self.running.pop(job)
        attempt.ending, attempt.ended = "done", at
        self.done += 1
        self.last_end = at
        self._notes.add(at, "done", attempt, attempt.lane)

    def failed(self, job: str, at: float) -> None:
        """The attempt failed; what becomes of the job follows."""
        attempt = self.running[job]
        attempt.ending, attempt.ended = "failed", at
        self._notes.add(at, "fail", attempt, attempt.lane)

    def crashed(self, worker: str, at: float) -> None:
        """The worker died with all its attempts. The store does not know yet."""
        for attempt in self.running.values():
            if attempt.worker == worker:
                attempt.ending, attempt.ended = "crashed", at

    def reclaimed(self, job: str, at: float) -> None:
        """A reaper found that the attempt was lost; what becomes of the job follows."""
        attempt = self.running[job]
        self.reclaims += 1
        self._notes.add(at, "reclaimed", attempt, attempt.lane)

    def returned(self, job: str) -> None:
        """A claimed job was given back before it started."""
        attempt = self.running.pop(job)
        self.attempts.remove(attempt)
        self._notes.forget_start(attempt)

    def again(self, job: str, lane: Lane, due: float) -> None:
        """The job will be tried again."""
        attempt = self.running.pop(job)
        self._before[job] = attempt.region
        self._notes.add(due, "retry-due", attempt, label(lane.scope, lane.priority))

    def gave_up(self, job: str, at: float) -> None:
        """No retry is left: a dead letter."""
        attempt = self.running.pop(job)
        self.dead += 1
        self.last_end = at
        self._notes.add(at, "dead", attempt, attempt.lane)

    def switched(self, region: str, at: float, *, opened: bool) -> None:
        """A breaker opened or closed."""
        switch = Switch(at, region, opened)
        self.switches.append(switch)
        self._notes.add(at, "breaker-open" if opened else "breaker-close", switch, "")


def event_of(t: float, event: EventName, what: Attempt | Switch, lane: str) -> Event:
    """The event. A retry that falls due has the number of its next attempt."""
    if isinstance(what, Switch):
        return Event(t, "", what.region, event, 0, lane)
    if event == "retry-due":
        return Event(t, what.job, what.home, event, what.number + 1, lane)
    return Event(t, what.job, what.region, event, what.number, lane)


@cache
def label(scope: str, priority: int) -> str:
    """The lane's label, cached, since there are few lanes and many events."""
    return Lane("", scope, priority).label
