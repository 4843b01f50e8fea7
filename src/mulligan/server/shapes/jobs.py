"""Jobs in requests and answers."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from mulligan.core.job import Status
from mulligan.core.settings import BATCH_LIMIT
from mulligan.core.written_retry import Retry
from mulligan.server.shapes.names import Cursor, GivenPriority, Ids, Name, Option, Span, Wait, Words

COUNT_LIMIT = 10_000


class Filter(Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs: every field that is given must match; `text` is searched in the last failure."""

    status: Status | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    region: Name | UnsetType = UNSET
    task: Name | UnsetType = UNSET
    text: Words | UnsetType = UNSET


# Seconds since 1970, up to the year 9999.
Moment = Annotated[float, Meta(ge=0, le=253_402_300_800)]


class PageQuery(Filter, frozen=True, forbid_unknown_fields=True):
    """A page of the jobs that match, enqueued within these times if they are given."""

    limit: Annotated[int, Meta(ge=1, le=BATCH_LIMIT)] = 50
    after: Cursor | UnsetType = UNSET
    created_after: Moment | UnsetType = UNSET
    created_before: Moment | UnsetType = UNSET


class JobQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """For how many seconds the answer may wait until the job has ended."""

    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0


class DeadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters: of a queue and a task, or all."""

    queue: Name | UnsetType = UNSET
    task: Name | UnsetType = UNSET


class JobView(Struct, frozen=True):
    """A job as a reader sees it. Secrets in its body and result are hidden."""

    id: str
    queue: str
    task: str
    region: str
    priority: int
    status: Status
    scope: str
    lane: str
    due: float
    token: int
    retry_count: int
    replay: int
    snoozes: int
    created_at: float
    body: Any
    unique_key: str | None
    limits: dict[str, int]
    fairness_key: str | None
    waits_for: str | None
    expires_at: float | None
    worker: str | None
    worker_region: str | None
    started_at: float | None
    last_retry_at: float | None
    ended_at: float | None
    result: Any
    last_failure_reason: str | None
    cancel_reason: str | None
    awaits: int
    gather: str | None
    keep: int | None
    debounce_until: float | None
    unique_until: float | None
    return_exceptions: bool
    members_failed: int
    members_cancelled: int


class JobPage(Struct, frozen=True):
    """Jobs, and the cursor of the next page; null after the last.

    If it is `partial`, the search ended before the page was full: continue with `after`.
    """

    jobs: list[JobView]
    after: str | None
    partial: bool


class AttemptView(Struct, frozen=True):
    """One failed or lost attempt; `delay` is the wait before the next, null after the last."""

    number: int
    replay: int
    region: str
    worker: str
    started_at: float
    ended_at: float | None
    type: str
    message: str
    code: str | None
    delay: float | None
    refused: str | None
    traceback: str | None


class History(Struct, frozen=True):
    """The failed and lost attempts of a job, oldest first, across replays."""

    attempts: list[AttemptView]


class Explanation(Struct, frozen=True):
    """Why a job is where it is, in one sentence."""

    job_id: str
    explanation: str


class Counted(Struct, frozen=True):
    """How many jobs match; with `more`, counting stopped there."""

    count: int
    more: bool


class DeadGroup(Struct, frozen=True):
    """Dead letters of one queue and task with the same error, in which # stands for numbers.

    `ids` are at most 1,000 of them, the newest first.
    """

    queue: str
    task: str
    error: str
    count: int
    example: str
    newest_at: float | None
    ids: list[str]


class DeadGroups(Struct, frozen=True):
    """The largest group first. Unless `complete`, only the newest `looked_at` were counted."""

    groups: list[DeadGroup]
    looked_at: int
    complete: bool


class Enqueue(Struct, frozen=True, forbid_unknown_fields=True):
    """A job to be run: a task's name, its arguments, and options as `using(...)` takes them."""

    task: Name
    args: Annotated[list[Any], Meta(max_length=10_000)] | None = []
    kwargs: dict[str, Any] | None = {}
    queue: Option | UnsetType | None = UNSET
    region: Option | UnsetType | None = UNSET
    priority: GivenPriority | UnsetType | None = UNSET
    retry: Retry | Option | UnsetType | None = UNSET
    timeout: Span | UnsetType | None = UNSET
    delay: Wait | UnsetType | None = UNSET
    run_after: Annotated[datetime, Meta(tz=True)] | UnsetType | None = UNSET
    unique_key: Option | UnsetType | None = UNSET
    unique_for: Span | UnsetType | None = UNSET
    debounce: Span | UnsetType | None = UNSET
    debounce_max: Span | UnsetType | None = UNSET
    id: Option | UnsetType | None = UNSET
    expires: Span | UnsetType | None = UNSET
    keep: Wait | UnsetType | None = UNSET
    limits: Option | list[Name] | dict[Name, Annotated[int, Meta(ge=1)]] | UnsetType | None = UNSET
    fairness_key: Option | UnsetType | None = UNSET
    pinned: bool | UnsetType | None = UNSET


EnqueueMany = Annotated[list[Enqueue], Meta(min_length=1, max_length=BATCH_LIMIT)]


class EnqueuedJob(Struct, frozen=True):
    """The job's id; `created` is false if the job was stored before."""

    id: str
    created: bool


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """Either `ids`, or a `selection` with the number of jobs `expected` in it."""

    ids: Ids | UnsetType = UNSET
    selection: Filter | UnsetType = UNSET
    expected: Annotated[int, Meta(ge=0, le=COUNT_LIMIT)] | UnsetType = UNSET


class ReplayChange(Change, frozen=True, forbid_unknown_fields=True):
    """Which jobs to replay; `from_start` forgets their steps, checkpoints and progress."""

    from_start: bool = False


class CancelChange(Change, frozen=True, forbid_unknown_fields=True):
    """Which jobs to end, and the reason that is kept with them."""

    reason: Words = "cancelled through the API"


class Changed(Struct, frozen=True):
    """How many jobs were changed, and which could not be; with `more`, others are left.

    `reasons` say of the first 100 refused why.
    """

    changed: int
    refused: list[str]
    more: bool
    reasons: dict[str, str]


class Switched(Struct, frozen=True):
    """A queue, and whether it is paused now."""

    queue: str
    paused: bool
