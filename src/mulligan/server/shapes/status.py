"""The state of a store in answers; `core.status` computes it."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from mulligan.app.arguments import Parameter
from mulligan.core.worker import Order, WorkerAbout
from mulligan.server.shapes.jobs import JobView


class CurrentJob(Struct, frozen=True, omit_defaults=True):
    """A running job, with its own region if it runs in another."""

    job_id: str
    retry_count: int
    original_region: str | UnsetType = UNSET
    is_retry: bool | UnsetType = UNSET


class RegionStatus(Struct, frozen=True):
    """Sizes count due, waiting jobs. `current_jobs` lists all where several run."""

    queue_size: int
    retry_queue_size: int
    processing: bool
    current_job: CurrentJob | None
    current_jobs: list[CurrentJob] | UnsetType = UNSET


class OneRegion(RegionStatus, frozen=True, kw_only=True):
    """One region; its running jobs also say whether they are retries."""

    region: str


class StatusDocument(Struct, frozen=True):
    """The global retry queue and every region; `after` is there if others follow."""

    global_retry_queue_size: int
    regions: dict[str, RegionStatus]
    after: str | UnsetType = UNSET


class QueueStatus(Struct, frozen=True):
    """Waiting jobs by kind, running jobs, and ended jobs that are still stored.

    `held_by` are the paused limits that all due jobs of the queue wait for, as far as these were
    looked at.
    """

    fresh: int
    urgent: int
    retry: int
    running: int
    done: int
    failed: int
    cancelled: int
    paused: bool
    policy: str
    held_by: list[str]


class BudgetView(Struct, frozen=True):
    """At most `limit` retries start in `per` seconds, or a `ratio` of the fresh starts."""

    limit: int | None
    per: float
    ratio: float | None


class QueueView(QueueStatus, frozen=True):
    """A queue with its settings."""

    budget: BudgetView | None
    grace: float


class Queues(Struct, frozen=True):
    """Every queue that has a job, a worker, settings or a pause."""

    queues: dict[str, QueueView]
    after: str | UnsetType = UNSET


class DelayedView(Struct, frozen=True):
    """Delayed jobs that have not started since; `ready_in_hour` counts `ready_now` too."""

    total: int
    ready_now: int
    ready_in_hour: int


class DelayedSets(Struct, frozen=True):
    """The delayed set of each queue that has one."""

    delayed: dict[str, DelayedView]
    after: str | UnsetType = UNSET


class LaneView(Struct, frozen=True):
    """A lane that is not empty: how many of its jobs are due, and how many are not yet."""

    queue: str
    scope: str
    priority: int
    lane: str
    ready: int
    delayed: int
    oldest_due: float


class Lanes(Struct, frozen=True):
    """Every lane that is not empty."""

    lanes: list[LaneView]
    after: str | UnsetType = UNSET


class BreakerView(Struct, frozen=True):
    """An open breaker lets one probe through at a time; three good ones close it.

    `probes` is how many in a row went well, `failed_probes` how many failed. `next_probe_at` is
    null if it is closed, or if the breakers of all regions are open and all serve.
    """

    open: bool
    since: float
    probes: int
    failed_probes: int
    next_probe_at: float | None


class HealthView(Struct, frozen=True):
    """Attempts of the last minute at a queue in a region."""

    queue: str
    region: str
    succeeded: int
    failed: int
    success_rate: float
    breaker: BreakerView


class RegionView(Struct, frozen=True):
    """A region: the queues that its live workers serve, and its health in each."""

    live: bool
    serves: list[str]
    health: dict[str, HealthView]


class Regions(Struct, frozen=True):
    """Every region that has had a worker."""

    regions: dict[str, RegionView]
    after: str | UnsetType = UNSET


class WorkerRow(Struct, frozen=True):
    """A worker that has joined and not left; its name is empty if it was given none.

    `about` is its process, null of one that is not alive or speaks HTTP.
    """

    id: str
    name: str
    region: str
    queues: list[str]
    only: str | None
    concurrency: int
    live: bool
    running: int
    beat_at: float
    joined_at: float
    about: WorkerAbout | None


class WorkerDetail(WorkerRow, frozen=True, kw_only=True):
    """A worker, the jobs that it runs now, and what it was ordered to do."""

    order: Order | None
    jobs: list[JobView]


class Ordered(Struct, frozen=True):
    """A worker, and what it was ordered to do."""

    worker: str
    order: Order


class Workers(Struct, frozen=True):
    """Every worker that has joined and not left."""

    workers: list[WorkerRow]
    after: str | UnsetType = UNSET


class TaskView(Struct, frozen=True):
    """A task of the app: where its jobs go unless a call says otherwise, and what it takes."""

    name: str
    queue: str
    region: str
    gated: bool
    parameters: list[Parameter]


class Tasks(Struct, frozen=True):
    """The tasks that the server knows; none without an app."""

    tasks: list[TaskView]


class ShardRow(Struct, frozen=True):
    """A shard: its store, how many jobs wait and run there, and why it is away, if it is."""

    shard: int
    url: str
    waiting: int
    running: int
    away: str | None


class TightLimit(Struct, frozen=True):
    """A limit that is paused, or full while jobs wait for it."""

    name: str
    state: Literal["paused", "full"]
    paused_until: float | None
    waiting: int
    running: int


class Overview(Struct, frozen=True):
    """The overview. `now` is the store's time; `recent` is the last minute, by queue and region.

    `gathering` are jobs, by queue, that wait for others to arrive; `fleets` are run by supervisors.
    `shards` are those of an app that has several stores. `limits` are the paused and the
    full ones. `omitted` counts, by field, the entries that are left out of long lists.
    """

    global_retry_queue_size: int
    regions: dict[str, RegionStatus]
    queues: dict[str, QueueView]
    delayed: dict[str, DelayedView]
    workers: list[WorkerRow]
    warnings: list[str]
    now: float
    lanes: list[LaneView]
    health: list[HealthView]
    recent: dict[str, dict[str, dict[str, int | float | str | None]]]
    alerts: list[str]
    limits: list[TightLimit]
    gathering: dict[str, int]
    fleets: dict[str, Any]
    shards: list[ShardRow]
    omitted: dict[str, int]
    read_only: bool
    store: str
    version: str
