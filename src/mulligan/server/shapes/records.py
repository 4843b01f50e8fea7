"""What jobs have recorded, in requests and answers."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from mulligan.core.job import Status
from mulligan.core.settings import BATCH_LIMIT, LOG_LIMIT, STEP_LIMIT
from mulligan.server.shapes.names import Name, Token
from mulligan.server.shapes.workers import Held


class StepView(Struct, frozen=True, omit_defaults=True):
    """A recorded step, and the length of its result as JSON; of more than 1,024 it is left out."""

    name: str
    at: float
    size: int
    result: Any = UNSET


class ProgressView(Struct, frozen=True):
    """So much is done, of so much; null if that is not known."""

    done: float
    of: float | None
    note: str | None
    at: float


class LineView(Struct, frozen=True):
    """A line that the job logged."""

    at: float
    text: str


class CheckpointView(Struct, frozen=True, omit_defaults=True):
    """Where a later attempt goes on; a value of more than 1,024 bytes is left out."""

    at: float
    size: int
    value: Any = UNSET


class RecordsView(Struct, frozen=True):
    """What a job has recorded: its steps and log, oldest first, progress and checkpoint."""

    steps: list[StepView]
    progress: ProgressView | None
    log: list[LineView]
    checkpoint: CheckpointView | None


class JobNews(RecordsView, frozen=True):
    """The status of a job, and what it has recorded: an event of its stream."""

    status: Status | None
    now: float


class StepResult(Struct, frozen=True, forbid_unknown_fields=True):
    """A step that was run, and its result."""

    name: Name
    result: Raw


class ProgressSaid(Struct, frozen=True, forbid_unknown_fields=True):
    """How far the job is."""

    done: float
    of: float | None = None
    note: Annotated[str, Meta(max_length=10_000)] | None = None


Line = Annotated[str, Meta(max_length=100_000)]


class Recorded(Held, frozen=True, forbid_unknown_fields=True):
    """What an attempt records. `number` counts its requests about this job, from 1."""

    number: Annotated[int, Meta(ge=1, le=1_000_000)]
    steps: Annotated[tuple[StepResult, ...], Meta(max_length=STEP_LIMIT)] = ()
    progress: ProgressSaid | None = None
    log: Annotated[tuple[Line, ...], Meta(max_length=LOG_LIMIT)] = ()
    checkpoint: Raw | UnsetType = UNSET


class RecordRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What attempts record, and the worker that holds them."""

    worker: Name
    jobs: Annotated[list[Recorded], Meta(min_length=1, max_length=BATCH_LIMIT)]


class RecordedJob(Struct, frozen=True):
    """What became of the records of one lease; after `stale` its attempt should end."""

    id: str
    token: int
    verdict: Literal["recorded", "stale"]


class RecordedJobs(Struct, frozen=True):
    """What became of each, in the order of the request."""

    jobs: list[RecordedJob]


class RecordsRequest(Held, frozen=True, forbid_unknown_fields=True):
    """A lease whose job's records are asked for, and the worker that holds it."""

    worker: Name


class WorkerStep(Struct, frozen=True):
    """A step that need not run again."""

    name: str
    result: Raw


class WorkerRecords(Struct, frozen=True):
    """The steps that earlier attempts have recorded, and the last checkpoint, null if none."""

    id: str
    token: Token
    steps: list[WorkerStep]
    checkpoint: Raw
