"""Requests and answers of HTTP workers."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from mulligan.core.limits import MOST_COST, MOST_NAMES
from mulligan.core.settings import BATCH_LIMIT
from mulligan.server.shapes.names import PRINTABLE, Name, Token, Wait

LONGEST_POLL = 30.0
Spent = Annotated[int, Meta(ge=1, le=MOST_COST)]
ClassName = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)]


class Held(Struct, frozen=True, forbid_unknown_fields=True):
    """A lease: the job and the token that its claim gave."""

    id: Name
    token: Token


class Join(Struct, frozen=True, forbid_unknown_fields=True):
    """A worker that starts. `name` is the beginning of its id; `tasks` are those that it runs.

    Other workers of its queues leave jobs of these tasks to it, and `explain` knows who runs them.
    """

    region: Name = "default"
    queues: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=100)] = ("default",)
    concurrency: Annotated[int, Meta(ge=1, le=100_000)] = 1
    lease: Annotated[float, Meta(ge=1, le=86_400)] | UnsetType = UNSET
    only: Literal["retries", "fresh"] | None = None
    name: Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")] = "http"
    tasks: Annotated[tuple[Name, ...], Meta(max_length=1000)] = ()


class Joined(Struct, frozen=True):
    """Its id for this run, how long its leases last, and how often it should beat."""

    worker: str
    lease: float
    beat: float


class Heartbeat(Struct, frozen=True, forbid_unknown_fields=True):
    """A worker is alive; `holding` are all leases that it knows of, null if it does not say."""

    worker: Name
    holding: Annotated[list[Held], Meta(max_length=100_000)] | None = None


class HeartbeatAnswer(Struct, frozen=True):
    """Leases that it has lost, and leases that were given back because it did not know them."""

    lost: list[Held]
    returned: list[Held]


class ClaimRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Up to `limit` jobs; waits up to `wait` seconds for the first."""

    worker: Name
    limit: Annotated[int, Meta(ge=1, le=BATCH_LIMIT)] = 1
    wait: Annotated[float, Meta(ge=0, le=LONGEST_POLL)] = 0.0


class ClaimedJob(Struct, frozen=True):
    """A job to run now. Every later request about it must have the token."""

    id: str
    token: int
    task: str
    args: Raw
    kwargs: Raw
    timeout: float | None
    queue: str
    region: str
    attempt: int
    replay: int
    lane: str


class ClaimedJobs(Struct, frozen=True):
    """The claimed jobs; none if there was none in time."""

    jobs: list[ClaimedJob]


class Ended(Held, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attempt that ended; `spent` is what it used of limits besides the costs of its job."""

    spent: Annotated[dict[Name, Spent], Meta(max_length=MOST_NAMES)] = {}


class Success(Ended, frozen=True, forbid_unknown_fields=True):
    """An attempt that succeeded, and its result."""

    result: Raw = field(default_factory=lambda: Raw(b"null"))


class Failure(Ended, frozen=True, forbid_unknown_fields=True):
    """An attempt that failed, and why; `delay` replaces the wait that the job's policy gives.

    Of the `traceback` 8 KiB are kept, without secrets. `classes` are those that the error belongs
    to beside its `type`: what `on` and `never` of a retry policy may name. No job of the limits in
    `pause` starts anywhere for as long as the `delay`.
    """

    reason: Annotated[str, Meta(max_length=100_000)]
    type: Name = "Error"
    code: Annotated[str, Meta(max_length=100, pattern=PRINTABLE)] | None = None
    delay: Wait | None = None
    non_retryable: bool = False
    traceback: Annotated[str, Meta(max_length=100_000)] | None = None
    classes: Annotated[tuple[ClassName, ...], Meta(max_length=100)] = ()
    pause: Annotated[tuple[Name, ...], Meta(max_length=MOST_NAMES)] = ()


class Snooze(Ended, frozen=True, forbid_unknown_fields=True):
    """An attempt that is to run later."""

    delay: Wait


class Acks(Struct, frozen=True, forbid_unknown_fields=True):
    """Attempts that succeeded, and the worker that holds them."""

    worker: Name
    jobs: Annotated[list[Success], Meta(min_length=1, max_length=BATCH_LIMIT)]


class Nacks(Struct, frozen=True, forbid_unknown_fields=True):
    """Attempts that failed, and the worker that holds them."""

    worker: Name
    jobs: Annotated[list[Failure], Meta(min_length=1, max_length=BATCH_LIMIT)]


class Snoozes(Struct, frozen=True, forbid_unknown_fields=True):
    """Attempts that are to run later, and the worker that holds them."""

    worker: Name
    jobs: Annotated[list[Snooze], Meta(min_length=1, max_length=BATCH_LIMIT)]


class Returns(Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs that were not started, and the worker that holds them."""

    worker: Name
    jobs: Annotated[list[Held], Meta(min_length=1, max_length=BATCH_LIMIT)]


class Committed(Struct, frozen=True, omit_defaults=True):
    """What became of one lease; `outcome` is set if it was written now."""

    id: str
    token: int
    verdict: Literal["written", "already", "stale"]
    outcome: Literal["done", "retry", "failed", "later", "returned"] | None = None
    delay: float | None = None
    reason: str | None = None


class CommittedJobs(Struct, frozen=True):
    """What became of each, in the order of the request."""

    jobs: list[Committed]


class Leave(Struct, frozen=True, forbid_unknown_fields=True):
    """A worker that stops."""

    worker: Name


class Left(Struct, frozen=True):
    """The worker that left."""

    worker: str
