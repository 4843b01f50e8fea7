"""The log of a simulation: its attempts and events."""

from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Literal, NamedTuple

from mulligan.core.checks import rounded
from mulligan.core.job import Claim
from mulligan.core.lane import Lane
from mulligan.sim.attempts import Attempt, Attempts, Waiting

EventName = Literal[
    "start", "done", "fail", "retry-due", "dead", "reclaimed", "breaker-open", "breaker-close"
]
# A retry falls due in the job's own region, and has the number of its next attempt.
EVENTS = """
    SELECT started AS t, start_event AS event, job, region, 'start', number, lane FROM attempt
    UNION ALL
    SELECT ended, end_event, job, region, iif(ending = 'done', 'done', 'fail'), number, lane
    FROM attempt WHERE end_event IS NOT NULL
    UNION ALL
    SELECT outcome_at, outcome_event, job, home, 'retry-due', number + 1, next_lane
    FROM attempt WHERE outcome = 'retry-due'
    UNION ALL
    SELECT outcome_at, outcome_event, job, region, 'dead', number, lane
    FROM attempt WHERE outcome = 'dead'
    UNION ALL
    SELECT * FROM event
    ORDER BY t, event
"""


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


class Switch(NamedTuple):
    """A breaker that opened or closed."""

    at: float
    region: str
    opened: bool


class Log:
    """Everything that happened, in order. Attempts are on the disk, but for those that run."""

    def __init__(self) -> None:
        self.attempts = Attempts()
        self.switches: list[Switch] = []
        self.running: dict[str, Attempt] = {}
        self.done = 0
        self.dead = 0
        self.reclaims = 0
        self.last_end = 0.0
        self._before: dict[str, str] = {}
        self._next_event = count().__next__

    @property
    def events(self) -> Iterator[Event]:
        """All events in the order of time; those of one instant, cause before effect."""
        for t, _, job, region, name, attempt, lane in self.attempts.rows(EVENTS):
            yield Event(t, job, region, name, attempt, lane)

    def started(self, claim: Claim, sequence: int, fairness_key: str | None) -> None:
        """A worker began an attempt."""
        started, due = claim.started_at, claim.due
        self.running[claim.id] = Attempt(
            start_event=self._next_event(),
            job=claim.id,
            number=claim.retry_count + 1,
            home=claim.region,
            lane=label(claim.scope, claim.lane_priority),
            due=due,
            sequence=sequence,
            region=claim.worker_region,
            worker=claim.worker,
            before=self._before.get(claim.id),
            fairness_key=fairness_key,
            started=started,
            ended=started,
            wait=0.0 if started == due else rounded(started - due),
        )

    def succeeded(self, job: str, at: float) -> None:
        """The attempt did its work, and the job is done."""
        attempt = self.running[job]
        attempt.ending, attempt.ended, attempt.end_event = "done", at, self._next_event()
        self.done += 1
        self._end(job, at)

    def failed(self, job: str, at: float) -> None:
        """The attempt failed; what becomes of the job follows."""
        attempt = self.running[job]
        attempt.ending, attempt.ended, attempt.end_event = "failed", at, self._next_event()

    def crashed(self, worker: str, at: float) -> None:
        """The worker died with all its attempts. The store does not know yet."""
        for attempt in self.running.values():
            if attempt.worker == worker:
                attempt.ending, attempt.ended = "crashed", at

    def reclaimed(self, job: str, at: float) -> None:
        """A reaper found that the attempt was lost; what becomes of the job follows."""
        attempt = self.running[job]
        self.reclaims += 1
        self._note(at, job, attempt.region, "reclaimed", attempt.number, attempt.lane)

    def returned(self, job: str) -> None:
        """A claimed job was given back before it started."""
        del self.running[job]

    def again(self, job: str, lane: Lane, due: float) -> None:
        """The job will be tried again."""
        attempt = self.running.pop(job)
        self._before[job] = attempt.region
        attempt.outcome, attempt.outcome_at, attempt.outcome_event = (
            "retry-due",
            due,
            self._next_event(),
        )
        attempt.next_lane = label(lane.scope, lane.priority)
        self.attempts.add(attempt)

    def gave_up(self, job: str, at: float) -> None:
        """No retry is left: a dead letter."""
        attempt = self.running[job]
        attempt.outcome, attempt.outcome_at, attempt.outcome_event = "dead", at, self._next_event()
        self.dead += 1
        self._end(job, at)

    def switched(self, region: str, at: float, *, opened: bool) -> None:
        """A breaker opened or closed."""
        self.switches.append(Switch(at, region, opened))
        self._note(at, "", region, "breaker-open" if opened else "breaker-close", 0, "")

    def close(self, waiting: list[Waiting]) -> None:
        """The run is over: some attempts still run, and these jobs wait."""
        for attempt in self.running.values():
            self.attempts.add(attempt)
        self.attempts.leave(waiting)

    def _note(self, at: float, *event: str | int) -> None:
        self.attempts.note((at, self._next_event(), *event))

    def _end(self, job: str, at: float) -> None:
        self.last_end = at
        self._before.pop(job, None)
        self.attempts.add(self.running.pop(job))


@cache
def label(scope: str, priority: int) -> str:
    """The lane's label, cached, since there are few lanes and many events."""
    return Lane("", scope, priority).label
