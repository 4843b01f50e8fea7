"""A stored job in memory, and the structs of `core/job.py` made from it."""

from operator import attrgetter

from msgspec import field
from msgspec.structs import replace

from mulligan.core.job import Attempt, Claim, Job
from mulligan.core.record import Record
from mulligan.stores.rules.row import Row


class StoredJob(Row, eq=False, gc=True):
    """A stored job, with what other stores keep beside it."""

    leased_at: float | None = None
    waits_for: str | None = None
    history: list[Attempt] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    arrived: dict[int, bytes | None] = field(default_factory=dict)
    permits: list[str] = field(default_factory=list)

    @property
    def last_failure_reason(self) -> str | None:
        """The reason of its last failed attempt."""
        return self.history[-1].reason if self.history else None

    @property
    def reclaimed(self) -> bool:
        """Whether a reaper holds it: only the lease of a claim begins with the attempt."""
        return self.leased_at != self.started_at


job_values = attrgetter(*Job.__struct_fields__)


def job_of(stored: StoredJob, waits_for: str | None) -> Job:
    """The job as readers see it; what its line waits for is the line's to say."""
    job = Job(*job_values(stored))
    return job if waits_for is None else replace(job, waits_for=waits_for)


def claim_of(stored: StoredJob) -> Claim:
    """The job, which is leased, as the worker that holds it sees it.

    Every claim makes one: by position, and spelled out, since all else takes twice as long.
    """
    return Claim(
        stored.id,
        stored.token,
        stored.queue,
        stored.task,
        stored.body or b"",
        stored.region,
        stored.priority,
        stored.scope,
        stored.lane_priority,
        stored.due,
        stored.retry_count,
        stored.replay,
        stored.snoozes,
        stored.worker or "",
        stored.worker_region or stored.region,
        stored.started_at or 0.0,
        stored.trail,
        stored.limits,
    )
