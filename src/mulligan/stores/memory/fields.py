"""A stored job in memory, and the structs of `core/job.py` made from it."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mulligan.core.checks import rounded
from mulligan.core.fields import JOB, NEW_JOB, names_of
from mulligan.core.job import Attempt, Claim, Job, Lease, NewJob, Status, first_token, never_started
from mulligan.core.lines import LineName, line_of

if TYPE_CHECKING:
    from mulligan.core import record


class StoredJob:
    """A stored job: the job as it was enqueued, and every field that changes afterwards.

    `first_sequence` is the sequence under which it was accepted. `sequence` is new each time that
    it joins a lane.
    """

    __slots__ = (
        "arrived",
        "awaits",
        "cancel_reason",
        "charged",
        "committed",
        "created_at",
        "debounce_until",
        "delayed",
        "due",
        "ended_at",
        "expires_at",
        "first_sequence",
        "history",
        "lane",
        "last_retry_at",
        "leased_at",
        "members_cancelled",
        "members_failed",
        "new",
        "permits",
        "records",
        "replay",
        "result",
        "retry_count",
        "sequence",
        "snoozes",
        "started_at",
        "status",
        "token",
        "trail",
        "unique_until",
        "worker",
        "worker_region",
    )

    def __init__(self, new: NewJob, first_sequence: int, now: float) -> None:
        self.new = new
        self.first_sequence = first_sequence
        self.created_at = now
        self.status: Status = "pending"
        self.lane = new.lane
        self.due = now
        self.sequence = 0
        self.delayed = False
        self.token = first_token(first_sequence)
        self.committed = 0
        self.retry_count = 0
        self.replay = 0
        self.snoozes = 0
        self.expires_at = None if new.expires is None else now + new.expires
        self.debounce_until = None if new.debounce_max is None else rounded(now + new.debounce_max)
        self.unique_until = None if new.unique_for is None else rounded(now + new.unique_for)
        self.worker: str | None = None
        self.worker_region: str | None = None
        self.started_at: float | None = None
        self.leased_at: float | None = None
        self.last_retry_at: float | None = None
        self.ended_at: float | None = None
        self.result: bytes | None = None
        self.cancel_reason: str | None = None
        self.history: list[Attempt] = []
        self.trail = ""
        self.awaits = new.awaits
        self.arrived: dict[int, bytes | None] = {}
        self.members_failed = 0
        self.members_cancelled = 0
        self.permits: list[str] = []
        self.records: dict[str, record.Record] = {}
        self.charged: tuple[tuple[str, int], ...] = ()

    @property
    def line(self) -> LineName | None:
        """The line that it stands in while it is pending; None if that is the lane itself."""
        return line_of(self.lane, self.new.fairness_key, self.new.limits)

    @property
    def unique(self) -> tuple[str, str] | None:
        """The unique key that it has or had, and its queue."""
        key = self.new.unique_key
        return None if key is None else (self.new.key_queue, key)

    @property
    def last_failure_reason(self) -> str | None:
        """The reason of its last failed attempt."""
        return self.history[-1].reason if self.history else None

    @property
    def no_limit(self) -> None:
        """A job by itself does not know what its line waits for."""

    @property
    def lease(self) -> Lease:
        """The newest lease on it."""
        return Lease(self.new.id, self.token)

    @property
    def reclaimed(self) -> bool:
        """Whether a reaper holds it: only the lease of a claim begins with the attempt."""
        return self.leased_at != self.started_at

    def has_expired(self, now: float) -> bool:
        """Whether it should have started by now, and has not."""
        waits = never_started(self.retry_count, self.snoozes, self.replay)
        return waits and self.expires_at is not None and self.expires_at <= now


def path_to(field: str) -> str:
    """Where a stored job keeps the field: itself, in its lane, or in the job that was enqueued."""
    if field in LANE_FIELDS:
        return LANE_FIELDS[field]
    return field if hasattr(StoredJob, field) else f"new.{field}"


LANE_FIELDS = {"scope": "lane.scope", "lane_priority": "lane.priority", "waits_for": "no_limit"}
job_values = attrgetter(*map(path_to, Job.__struct_fields__))


def job_of(stored: StoredJob, waits_for: str | None) -> Job:
    """The job as readers see it; what its line waits for is the line's to say."""
    job = Job(*job_values(stored))
    return job if waits_for is None else replace(job, waits_for=waits_for)


def claim_of(stored: StoredJob) -> Claim:
    """The job, which is leased, as the worker that holds it sees it.

    Every claim makes one: by position, and spelled out, since all else takes twice as long.
    """
    new, lane = stored.new, stored.lane
    return Claim(
        new.id,
        stored.token,
        new.queue,
        new.task,
        new.body,
        new.region,
        new.priority,
        lane.scope,
        lane.priority,
        stored.due,
        stored.retry_count,
        stored.replay,
        stored.snoozes,
        stored.worker or "",
        stored.worker_region or new.region,
        stored.started_at or 0.0,
        stored.trail,
        new.limits,
    )


# Fields of an adopted job that it was enqueued with, and those that it keeps besides.
ENQUEUED_FIELDS = tuple(name for name in names_of(NEW_JOB) if name in names_of(JOB))
ADOPTED_FIELDS = (
    *("expires_at", "retry_count", "replay", "snoozes", "started_at", "last_retry_at", "trail"),
    *("debounce_until", "unique_until", "members_failed", "members_cancelled"),
)


def stored_of(job: Job, first_sequence: int) -> StoredJob:
    """A job that another store held, in no lane yet."""
    enqueued: dict[str, Any] = {name: getattr(job, name) for name in ENQUEUED_FIELDS}
    stored = StoredJob(NewJob(**enqueued), first_sequence, job.created_at)
    for name in ADOPTED_FIELDS:
        setattr(stored, name, getattr(job, name))
    return stored
