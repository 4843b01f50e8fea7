"""What happened in a simulation: attempts and events, as they are written down."""

from typing import Literal, NamedTuple

from mulligan.core.job import Claim
from mulligan.core.lane import Lane

EventName = Literal["start", "done", "fail", "retry-due", "dead", "seized"]
Ending = Literal["done", "failed", "crashed", "running"]


class Event(NamedTuple):
    """Something that happened to a job; `region` is where, and of a retry that fell due its own."""

    t: float
    job: str
    region: str
    event: EventName
    attempt: int
    lane: str


class Attempt:
    """One attempt: which line it came from, where it ran and how it ended.

    `home` is the region of the job, `before` the one that failed it last.
    """

    __slots__ = (
        "before", "due", "ended", "ending", "home", "job", "lane", "number", "region",
        "sequence", "started", "worker",
    )  # fmt: skip

    def __init__(self, claim: Claim, sequence: int, before: str | None) -> None:
        self.job = claim.id
        self.number = claim.attempt
        self.home = claim.region
        self.lane = claim.lane.label
        self.due = claim.due
        self.sequence = sequence
        self.region = claim.worker_region
        self.worker = claim.worker
        self.before = before
        self.started = self.ended = claim.started_at
        self.ending: Ending = "running"

    @property
    def is_retry(self) -> bool:
        """Whether the job had failed before."""
        return self.number > 1


class Waiting(NamedTuple):
    """A job that stands in a line, or will when it falls due."""

    lane: str
    due: float
    is_retry: bool


class Log:
    """Everything that happened, in the order in which it did."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.waiting: dict[str, Waiting] = {}
        self.running: dict[str, Attempt] = {}
        self.done = 0
        self.dead = 0
        self.seizures = 0
        self.last_end = 0.0
        self._before: dict[str, str] = {}
        self._events: list[Event] = []

    @property
    def events(self) -> list[Event]:
        """All events in the order of time, and at one time in the order of cause."""
        return sorted(self._events, key=lambda event: event.t)

    def joined(self, job: str, lane: Lane, due: float) -> None:
        """A new job."""
        self.waiting[job] = Waiting(lane.label, due, is_retry=False)

    def started(self, claim: Claim, sequence: int) -> None:
        """A worker began an attempt."""
        del self.waiting[claim.id]
        attempt = Attempt(claim, sequence, self._before.get(claim.id))
        self.running[claim.id] = attempt
        self.attempts.append(attempt)
        self._note(attempt, "start", attempt.started)

    def succeeded(self, job: str, at: float) -> None:
        """The attempt did its work, and the job is done."""
        attempt = self.running.pop(job)
        attempt.ending, attempt.ended = "done", at
        self.done += 1
        self.last_end = at
        self._note(attempt, "done", at)

    def failed(self, job: str, at: float) -> None:
        """The attempt failed; what becomes of the job follows."""
        attempt = self.running[job]
        attempt.ending, attempt.ended = "failed", at
        self._note(attempt, "fail", at)

    def crashed(self, worker: str, at: float) -> None:
        """The worker died, and all it ran with it. Nobody knows yet."""
        for attempt in self.running.values():
            if attempt.worker == worker:
                attempt.ending, attempt.ended = "crashed", at

    def seized(self, job: str, at: float) -> None:
        """The loss of the attempt was found out; what becomes of the job follows."""
        self.seizures += 1
        self._note(self.running[job], "seized", at)

    def again(self, job: str, lane: Lane, due: float) -> None:
        """The job will be tried again."""
        attempt = self.running.pop(job)
        self._before[job] = attempt.region
        self.waiting[job] = Waiting(lane.label, due, is_retry=True)
        number = attempt.number + 1
        self._events.append(Event(due, job, attempt.home, "retry-due", number, lane.label))

    def gave_up(self, job: str, at: float) -> None:
        """No retry is left: a dead letter."""
        attempt = self.running.pop(job)
        self.dead += 1
        self.last_end = at
        self._note(attempt, "dead", at)

    def _note(self, attempt: Attempt, event: EventName, at: float) -> None:
        self._events.append(
            Event(at, attempt.job, attempt.region, event, attempt.number, attempt.lane)
        )
