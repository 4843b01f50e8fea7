"""A stored job as rules read and change it."""

from typing import Any

from msgspec import Struct

from mulligan.core.checks import rounded
from mulligan.core.job import (
    ENDED,
    Adopted,
    Lease,
    NewJob,
    Status,
    adopted_token,
    first_token,
    never_started,
)
from mulligan.core.lane import Lane
from mulligan.core.lines import LineName, line_of


class Row(Struct, eq=False, gc=False):
    """A stored job.

    `number` is the sequence under which the store accepted the job; `sequence` changes each time
    it joins a lane. `held` names the limits of which it holds permits. `has_key` says whether it
    is registered for its unique key. `kept` belongs to the store: where it found the row. `body`
    is set for new jobs and changed calls only, except in memory.
    """

    number: int
    id: str
    queue: str
    task: str
    region: str
    priority: int
    status: Status
    scope: str
    lane_priority: int
    due: float
    sequence: int
    delayed: bool
    token: int
    committed: int = 0
    retry_count: int = 0
    replay: int = 0
    snoozes: int = 0
    trail: str = ""
    started_at: float | None = None
    worker_region: str | None = None
    last_retry_at: float | None = None
    expires_at: float | None = None
    unique_key: str | None = None
    unique_in: str | None = None
    has_key: bool = False
    debounce_until: float | None = None
    unique_until: float | None = None
    limits: str | None = None
    fairness_key: str | None = None
    awaits: int = 0
    gather: str | None = None
    gather_index: int = 0
    return_exceptions: bool = False
    members_failed: int = 0
    members_cancelled: int = 0
    keep: int | None = None
    held: str | None = None
    cancel_reason: str | None = None
    created_at: float = 0.0
    worker: str | None = None
    ended_at: float | None = None
    result: bytes | None = None
    body: bytes | None = None
    kept: Any = None

    @property
    def lane(self) -> Lane:
        """The lane in which it waits, or from which it was last claimed."""
        return Lane(self.queue, self.scope, self.lane_priority)

    @lane.setter
    def lane(self, lane: Lane) -> None:
        _, self.scope, self.lane_priority = lane

    @property
    def first_lane(self) -> Lane:
        """The lane for which it was enqueued."""
        return Lane(self.queue, self.region, self.priority)

    @property
    def line(self) -> LineName | None:
        """The line in which it waits; None for a job without limits and fairness key."""
        return line_of(self.lane, self.fairness_key, self.limits)

    @property
    def key_queue(self) -> str:
        """The queue of its unique key."""
        return self.unique_in or self.queue

    @property
    def lease(self) -> Lease:
        """Its newest lease."""
        return Lease(self.id, self.token)

    @property
    def has_ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.status in ENDED

    @property
    def has_started(self) -> bool:
        """Whether any attempt of it has started."""
        return not never_started(self.retry_count, self.snoozes, self.replay)

    def has_expired(self, now: float) -> bool:
        """Whether its time to start is over before its first attempt."""
        return self.expires_at is not None and self.expires_at <= now and not self.has_started

    def is_held_by(self, lease: Lease) -> bool:
        """Whether this lease holds it."""
        return self.status == "processing" and self.token == lease.token


# Fields copied from a new job, and from a job of another store.
COPIED = tuple(
    name
    for name in NewJob.__struct_fields__
    if name in Row.__struct_fields__ and name != "priority"
)
ADOPTED = (
    *(name for name in COPIED if name != "body"),
    *("scope", "lane_priority", "due", "created_at", "expires_at", "retry_count", "replay"),
    *("snoozes", "started_at", "last_retry_at", "trail", "debounce_until", "unique_until"),
    *("members_failed", "members_cancelled", "priority", "body"),
)


def new_row(make: type[Row], new: NewJob, number: int, now: float) -> Row:
    """Return a new job, in no lane yet."""
    row = make(
        number, new.id, new.queue, new.task, new.region, int(new.priority), "pending", new.region,
        int(new.priority), now, 0, delayed=False, token=first_token(number),
    )  # fmt: skip
    row.created_at, row.body = now, new.body
    row.awaits, row.gather, row.gather_index = new.awaits, new.gather, new.gather_index
    row.return_exceptions, row.keep = new.return_exceptions, new.keep
    row.limits, row.fairness_key = new.limits, new.fairness_key
    row.unique_key, row.unique_in = new.unique_key, new.unique_in
    if new.expires is not None:
        row.expires_at = now + new.expires
    if new.debounce_max is not None:
        row.debounce_until = rounded(now + new.debounce_max)
    if new.unique_for is not None:
        row.unique_until = rounded(now + new.unique_for)
    return row


def adopted_row(make: type[Row], adopted: Adopted, number: int) -> Row:
    """Return a job of another store, in no lane yet."""
    job = adopted.job
    row = make(
        number, job.id, job.queue, job.task, job.region, job.priority, "pending", job.scope,
        job.lane_priority, job.due, 0, delayed=False, token=adopted_token(number, job.token),
    )  # fmt: skip
    for name in ADOPTED:
        setattr(row, name, getattr(job, name))
    return row
