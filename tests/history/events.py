"""What a history is made of: one event for each operation on a store, and a few others.

An event has one of three ends: it was answered; it was refused, and nothing happened; or nobody
knows, for the reply was lost, or the process died first: then it may have happened or not.
"""

from math import inf
from typing import Literal

from msgspec import Struct

from mulligan.core.counts import Count
from mulligan.core.facts import QueueSettings
from mulligan.core.health import Breaker
from mulligan.core.job import Enqueued, Lease, Status
from mulligan.core.lane import ANYWHERE, Lane
from mulligan.core.limits import Limit
from mulligan.core.outcome import Verdict
from mulligan.core.plan import Kind
from mulligan.core.record import RecordVerdict
from mulligan.core.worker import Worker

# Times are kept to the microsecond.
TICK = 2e-6


class Past(Struct, frozen=True, omit_defaults=True):
    """What a job had behind it when it was adopted from another store: where it had come to.

    Its failures are (number, type, message), oldest first; `arrived` are the places of those that
    had arrived at it.
    """

    status: Status
    lane: Lane
    replay: int = 0
    retry_count: int = 0
    snoozes: int = 0
    failures: list[tuple[int, str, str]] = []
    arrived: list[int] = []


class New(Struct, frozen=True, omit_defaults=True):
    """A job as it was handed to the store, without its body but for how often it is retried.

    One that was adopted has a past.
    """

    id: str
    queue: str = "default"
    task: str = ""
    region: str = ANYWHERE
    priority: int = 0
    delay: float = 0.0
    max_retries: int | None = None
    key: tuple[str, str] | None = None
    limits: dict[str, int] = {}
    fairness_key: str | None = None
    expires: float | None = None
    awaits: int = 0
    gather: str | None = None
    gather_index: int = 0
    past: Past | None = None
    keep: float | None = None
    return_exceptions: bool = False
    debounce_max: float | None = None
    unique_for: float | None = None
    body: int | None = None  # a checksum, of what is debounced

    @property
    def lane(self) -> Lane:
        """The lane that it joins first."""
        return Lane(self.queue, self.region, self.priority)


class Taken(Struct, frozen=True, omit_defaults=True):
    """A claimed or reclaimed job; its times are the store's own."""

    job: str
    token: int
    lane: Lane
    due: float = 0.0
    started_at: float = 0.0
    retry_count: int = 0
    replay: int = 0
    snoozes: int = 0
    worker: str = ""
    body: int | None = None  # a checksum

    @property
    def lease(self) -> Lease:
        """The hold that it gives."""
        return Lease(self.job, self.token)


How = Literal["done", "again", "later", "dead", "returned", "cancelled"]


class Ending(Struct, frozen=True, omit_defaults=True):
    """One outcome of a commit: what is to become of the job, and what is enqueued with it.

    Of its result there is a checksum. If it `hands_on`, one of the next arrives in its place.
    `spent` and `pauses` are what the attempt says of limits; after a `retry_after`, those that the
    job names may be paused as long. One that is returned may have other `limits` from then on.
    """

    job: str
    token: int
    how: How
    delay: float = 0.0
    lane: Lane | None = None
    number: int = 0
    type: str = ""
    message: str = ""
    next: list[New] = []
    result: int | None = None
    free: bool = False
    hands_on: bool = False
    spent: dict[str, int] = {}
    pauses: dict[str, float] = {}
    retry_after: float | None = None
    limits: dict[str, int] | None = None
    fairness_key: str | None = None

    @property
    def lease(self) -> Lease:
        """The hold that it shows."""
        return Lease(self.job, self.token)


class Kept(Struct, frozen=True, omit_defaults=True):
    """A stored job at the end, with its failures as (number, type, message), oldest first.

    Of its result there is a checksum.
    """

    id: str
    status: Status
    queue: str = "default"
    token: int = 0
    retry_count: int = 0
    replay: int = 0
    snoozes: int = 0
    failures: list[tuple[int, str, str]] = []
    result: int | None = None


class Event(Struct, kw_only=True, tag_field="op"):
    """What all events have: who asked, the number that this had there, when it began and ended.

    Times are those of the recorder's clock. `ended` is None while there is no answer; `error` says
    why there is none, or why it was refused.
    """

    process: str = ""
    number: int = 0
    began: float = 0.0
    ended: float | None = None
    error: str = ""

    @property
    def refused(self) -> bool:
        """Whether it was not done, beyond doubt."""
        return self.error != "" and self.ended is not None


class Enqueue(Event, tag="enqueue"):
    """Jobs were handed over: new ones, or those of another store, to be adopted with their past."""

    jobs: list[New]
    answers: list[Enqueued] | None = None


class Claim(Event, tag="claim"):
    """A worker asked for jobs. `left` are the kinds of work that it could still have had.

    If it got less than its demand, nothing that could start is left in the `emptied` lanes.
    """

    worker: Worker
    demand: int
    taken: list[Taken] | None = None
    left: list[tuple[str, Kind]] = []
    stale: bool = False
    emptied: list[Lane] = []


class Reclaim(Event, tag="reclaim"):
    """A reaper asked for the jobs of dead workers."""

    worker: Worker
    taken: list[Taken] | None = None


class Commit(Event, tag="commit"):
    """Outcomes were sent."""

    endings: list[Ending]
    verdicts: list[Verdict] | None = None


class Record(Event, tag="record"):
    """Attempts recorded something: each its lease, and the names of the steps in it."""

    recordings: list[tuple[Lease, list[str]]]
    verdicts: list[RecordVerdict] | None = None


class StepRun(Event, tag="step run"):
    """The function of a step was called, by the attempt of this token."""

    job: str
    token: int
    name: str


class Beat(Event, tag="beat"):
    """A worker showed what it holds, and was told what it has lost."""

    worker: Worker
    holding: list[Lease]
    lost: list[Lease] | None = None


class Leave(Event, tag="leave"):
    """A worker stopped on purpose."""

    worker: str


class Reschedule(Event, tag="reschedule"):
    """A schedule was to be changed, from one record to another, with ticks placed and withdrawn."""

    name: str
    before: str | None
    after: str | None
    placed: list[str]
    withdrawn: list[str]
    edit: bool = False
    done: bool | None = None


class Operate(Event, tag="operate"):
    """An operator replayed, cancelled or purged jobs."""

    what: Literal["replay", "cancel", "purge", "withdraw"]
    jobs: list[str]
    answers: list[bool] | None = None
    from_start: bool = False


class Configure(Event, tag="configure"):
    """The settings of a queue were stored."""

    queue: str
    settings: QueueSettings


class Pause(Event, tag="pause"):
    """A queue was paused or resumed."""

    queue: str
    paused: bool


class SetLimit(Event, tag="set limit"):
    """A limit was declared by an app, or set or reset by an operator."""

    name: str
    limit: Limit | None
    declared: bool


class PauseLimit(Event, tag="pause limit"):
    """A limit was paused for so many seconds, or resumed; or at least for so many."""

    name: str
    seconds: float
    at_least: bool = False


class Prune(Event, tag="prune"):
    """Jobs that were done or cancelled so many seconds ago were deleted."""

    keep_done: float
    pruned: int | None = None


class Report(Event, tag="report"):
    """A worker told what it counted."""

    counts: list[Count]


class Switch(Event, tag="switch"):
    """A breaker was to be replaced, and was if it still was as before."""

    queue: str
    region: str
    before: Breaker
    after: Breaker
    done: bool = False


class Attempt(Event, tag="attempt"):
    """What the task itself saw: it began, or ended so. A recorder's owner writes these.

    A task that failed for good, whatever retries are left, gave up. One that has a process of its
    own may crash it.
    """

    job: str
    token: int
    said: Literal["started", "succeeded", "refused", "failed", "gave up", "snoozed", "crashed"]


class Fault(Event, tag="fault"):
    """Something was done to the system on purpose.

    When the store's clock is set, `seconds` says by how much.
    """

    what: str
    about: str = ""
    seconds: float = 0.0


class Stock(Event, tag="stock"):
    """What is stored in the end, job by job and by the store's own counts.

    With `rest`, nothing is left to do: every job must have ended.
    """

    jobs: list[Kept]
    waiting: int = 0
    gathering: int = 0
    running: int = 0
    endings: dict[str, int] = {}
    counts: list[Count] = []
    rest: bool = False


AnyEvent = (
    Enqueue
    | Claim
    | Reclaim
    | Commit
    | Record
    | StepRun
    | Beat
    | Leave
    | Operate
    | Reschedule
    | Configure
    | Pause
    | SetLimit
    | PauseLimit
    | Switch
    | Prune
    | Report
    | Attempt
    | Fault
    | Stock
)


def latest(event: Event) -> float:
    """The latest moment at which it can have happened."""
    return inf if event.ended is None else event.ended


def surely_before(first: Event, second: Event) -> bool:
    """Whether the first had happened when the second did, whatever is in doubt.

    Of two at one instant, only their process knows; one that took no time was over then.
    """
    if latest(first) == second.began == first.began and first.process == second.process:
        return first.number < second.number
    return latest(first) < second.began
