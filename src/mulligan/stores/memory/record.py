"""A stored job in memory, and how readers see it."""

from mulligan.core.job import Attempt, Job, Lease, NewJob, Status, first_token, never_started
from mulligan.core.page import Selection


class Record:
    """A stored job. The lane's heap holds it while it is pending and not held by a key."""

    __slots__ = (
        "arrived",
        "awaits",
        "cancel_reason",
        "committed",
        "created_at",
        "delayed",
        "due",
        "ended_at",
        "expires_at",
        "held",
        "history",
        "lane",
        "last_retry_at",
        "leased_at",
        "new",
        "permits",
        "place",
        "replay",
        "result",
        "retry_count",
        "sequence",
        "snoozes",
        "started_at",
        "status",
        "token",
        "trail",
        "worker",
        "worker_region",
    )

    def __init__(self, new: NewJob, place: int, now: float) -> None:
        self.new = new
        self.place = place
        self.created_at = now
        self.status: Status = "pending"
        self.lane = new.lane
        self.due = now
        self.sequence = 0
        self.delayed = False
        self.held = False
        self.token = first_token(place)
        self.committed = 0
        self.retry_count = 0
        self.replay = 0
        self.snoozes = 0
        self.expires_at = None if new.expires is None else now + new.expires
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
        self.permits: list[str] = []

    @property
    def key(self) -> str | None:
        """The permit that its concurrency key stands for."""
        return None if self.new.concurrency_key is None else f"key:{self.new.concurrency_key}"

    @property
    def lease(self) -> Lease:
        """The newest lease on it."""
        return Lease(self.new.id, self.token)

    @property
    def reclaimed(self) -> bool:
        """Whether a reaper has it: only the lease of a claim begins with the attempt."""
        return self.leased_at != self.started_at

    def has_expired(self, now: float) -> bool:
        """Whether it should have started by now, and has not."""
        waits = never_started(self.retry_count, self.snoozes, self.replay)
        return waits and self.expires_at is not None and self.expires_at <= now


def view(record: Record) -> Job:
    """The record as readers see it."""
    new = record.new
    return Job(
        id=new.id,
        queue=new.queue,
        task=new.task,
        region=new.region,
        priority=new.priority,
        status=record.status,
        scope=record.lane.scope,
        lane_priority=record.lane.priority,
        due=record.due,
        sequence=record.sequence,
        token=record.token,
        retry_count=record.retry_count,
        replay=record.replay,
        snoozes=record.snoozes,
        created_at=record.created_at,
        body=new.body,
        unique_key=new.unique_key,
        concurrency_key=new.concurrency_key,
        concurrency_limit=new.concurrency_limit,
        held=record.held,
        expires_at=record.expires_at,
        worker=record.worker,
        worker_region=record.worker_region,
        started_at=record.started_at,
        last_retry_at=record.last_retry_at,
        ended_at=record.ended_at,
        result=record.result,
        last_failure_reason=record.history[-1].reason if record.history else None,
        cancel_reason=record.cancel_reason,
        trail=record.trail,
        unique_in=new.unique_in,
        awaits=record.awaits,
        gather=new.gather,
        gather_index=new.gather_index,
    )


def matches(selection: Selection, record: Record) -> bool:
    """Whether the record is selected, whatever its last failure says."""
    new = record.new
    return (
        selection.status in (None, record.status)
        and selection.queue in (None, new.queue)
        and selection.region in (None, new.region)
        and selection.task in (None, new.task)
    )


def fails_with(text: str, record: Record) -> bool:
    """Whether the record's last failure says this."""
    return any(text in last.reason for last in record.history[-1:])
