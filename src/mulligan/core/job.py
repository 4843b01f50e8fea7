"""The job: what is enqueued, what a worker claims, and what a reader sees."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from mulligan.core.lane import ANYWHERE, Lane, Priority
from mulligan.core.retry import Retry, preset
from mulligan.core.stage import Stage

if TYPE_CHECKING:
    from mulligan.core.record import Record

Status = Literal["pending", "processing", "done", "failed", "cancelled"]
# Why a job that did not start in time is cancelled.
EXPIRED = "expired before it could start"
# What readers are told of a job that another program failed or cancelled without a reason.
NO_REASON = "no reason is recorded"


def never_arrives(job: str, how: str) -> str:
    """Why a gathering job is cancelled: one that it awaits was cancelled, or purged."""
    return f"job {job}, which it awaits, was {how}"


ENDED: frozenset[Status] = frozenset({"done", "failed", "cancelled"})


# How many tokens a job has before those of the next sequence begin. Sequences stay far below
# 2**41, so that a token is exact in a double too.
TOKENS_PER_LIFE = 4096


class Lease(NamedTuple):
    """A hold on a job: valid while the job's token is still this one."""

    job: str
    token: int


# In half the time: one is made for every attempt.
NEW_LEASE = partial(tuple.__new__, Lease)


def first_token(sequence: int) -> int:
    """The token of a job that was accepted under this sequence and never claimed.

    A job that was purged may be enqueued again under its id. Sequences only grow, so no lease of
    the earlier life holds anything in the later one.
    """
    return sequence * TOKENS_PER_LIFE


def adopted_token(sequence: int, token: int) -> int:
    """The token under which a job goes on in another store: as many are used as there."""
    return first_token(sequence) + token % TOKENS_PER_LIFE


def life_of(token: int) -> int:
    """Which life of its id a job is, by any of its tokens: a number that no other one has."""
    return token // TOKENS_PER_LIFE


def never_started(retry_count: int, snoozes: int, replay: int) -> bool:
    """Whether no attempt has come of any claim so far: what a drain returned has not started."""
    return retry_count == snoozes == replay == 0


class NewJob(Struct, frozen=True, gc=False):
    """A job as it is handed to a store: the body is encoded once and never changes.

    One that `awaits` others stands in no lane before so many have arrived: a job with `gather`
    arrives there when it is done, at its `gather_index`, with its result; where the gathering job
    has `return_exceptions`, however it ends (`core/gather.py`). Done or cancelled, it is
    kept for `keep` seconds, or if that is None for as long as the worker that prunes says. Its
    `limits` are JSON, a cost for each name.

    With `debounce_max` it is debounced: while it has never started, another of its unique key gives
    it its call and its delay anew, so often that it is due `debounce_max` after it was accepted at
    the latest. It holds its key no longer than that. If it says whom it `debounces`, a job of
    another id keeps its own call and delay. One with `unique_for` is throttled: it holds
    its key for so long at least, even when it has ended, unless it was cancelled.
    """

    id: str
    queue: str
    task: str
    body: bytes
    region: str = ANYWHERE
    priority: int = Priority.NORMAL
    delay: float = 0.0
    unique_key: str | None = None
    limits: str | None = None
    fairness_key: str | None = None
    expires: float | None = None
    unique_in: str | None = None
    awaits: int = 0
    gather: str | None = None
    gather_index: int = 0
    keep: int | None = None
    debounce_max: float | None = None
    debounces: str | None = None
    unique_for: float | None = None
    return_exceptions: bool = False

    @property
    def key_queue(self) -> str:
        """The queue whose unique key it holds: a later stage keeps that of the first."""
        return self.unique_in or self.queue

    @property
    def lane(self) -> Lane:
        """The lane that it joins when its delay has passed."""
        return Lane(self.queue, self.region, self.priority)


class Enqueued(NamedTuple):
    """What became of a NewJob: its id, or that of the job that was there before it."""

    id: str
    created: bool


NEW_ANSWER = partial(tuple.__new__, Enqueued)


def all_created(ids: Iterable[str]) -> list[Enqueued]:
    """What became of jobs that are all new, told a third quicker than one by one."""
    return list(map(NEW_ANSWER, zip(ids, repeat(True))))  # noqa: FBT003 - a field of a tuple


# In the body of a job that another program has made.
FOREIGN = b'"given":'
# In the body of a signed job whose result arrives at a gathering job.
ARRIVES = b'"arrives":'
# In the body of a job that others may follow.
FLOW, SINK = b'"flow":', b'"sink":'


class Claim(Struct, frozen=True, gc=False):
    """A claimed job, and who runs the attempt; for a reclaimed one, who lost it.

    `scope` and `lane_priority` say which lane it came from, `due` when it could have started,
    `started_at` when it did, in the store's time. `trail` is what its last failure left behind,
    `limits` are those that it names, as they are stored.
    """

    id: str
    token: int
    queue: str
    task: str
    body: bytes
    region: str
    priority: int
    scope: str
    lane_priority: int
    due: float
    retry_count: int
    replay: int
    snoozes: int
    worker: str
    worker_region: str
    started_at: float
    trail: str = ""
    limits: str | None = None

    @property
    def lease(self) -> Lease:
        """The hold that a commit must show."""
        return NEW_LEASE((self.id, self.token))

    @property
    def lane(self) -> Lane:
        """The lane it was taken from."""
        return Lane(self.queue, self.scope, self.lane_priority)

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.retry_count + 1

    @property
    def is_foreign(self) -> bool:
        """Whether no app has made the job, so that it may lack what its task declares."""
        return FOREIGN in self.body

    @property
    def is_followed(self) -> bool:
        """Whether the job may be followed by others when it is done."""
        return FLOW in self.body or SINK in self.body


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One failed or lost attempt, as the job's history keeps it.

    The store stamps `ended_at`; `delay` is the wait that was chosen, None if it was the last. Its
    `type` is the exception's class with its module, such as httpx.ReadTimeout.
    """

    number: int
    replay: int
    region: str
    worker: str
    started_at: float
    type: str
    message: str
    code: str | None = None
    delay: float | None = None
    refused: str | None = None
    ended_at: float | None = None
    traceback: str | None = None

    @property
    def reason(self) -> str:
        """What failed, in words: the exception's type and its message."""
        return f"{self.type}: {self.message}"


class Job(Struct, frozen=True):
    """A job as a reader sees it. Times are the store's, in seconds since 1970.

    `awaits` is how many have yet to arrive before it may start; `members_failed` and
    `members_cancelled` are how many of its members have ended so; `last_failure_reason` is the
    reason of the last attempt that failed.
    """

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
    token: int
    retry_count: int
    replay: int
    snoozes: int
    created_at: float
    body: bytes
    unique_key: str | None = None
    limits: str | None = None
    fairness_key: str | None = None
    waits_for: str | None = None
    expires_at: float | None = None
    worker: str | None = None
    worker_region: str | None = None
    started_at: float | None = None
    last_retry_at: float | None = None
    ended_at: float | None = None
    result: bytes | None = None
    last_failure_reason: str | None = None
    cancel_reason: str | None = None
    trail: str = ""
    unique_in: str | None = None
    awaits: int = 0
    gather: str | None = None
    gather_index: int = 0
    keep: int | None = None
    debounce_until: float | None = None
    unique_until: float | None = None
    return_exceptions: bool = False
    members_failed: int = 0
    members_cancelled: int = 0

    @property
    def key_queue(self) -> str:
        """The queue whose unique key it holds: a later stage keeps that of the first."""
        return self.unique_in or self.queue

    @property
    def lane(self) -> Lane:
        """The lane that it stands in, or was last taken from."""
        return Lane(self.queue, self.scope, self.lane_priority)

    def kept_until(self, keep_done: float) -> float | None:
        """When it may be deleted, if jobs that say nothing are kept so long; None if never."""
        if self.ended_at is None or self.status not in ("done", "cancelled"):
            return None
        return self.ended_at + (keep_done if self.keep is None else self.keep)

    def value(self) -> Any:
        """The accepted result, decoded; None while there is none."""
        return None if self.result is None else msgspec.json.decode(self.result)


class Adopted(NamedTuple):
    """A job of another store, with its history and what has arrived at it, by its index.

    And what it has recorded, oldest first, as `core/record.py` has it.
    """

    job: Job
    history: Sequence[Attempt]
    arrived: Mapping[int, bytes | None] = {}
    records: "Sequence[Record]" = ()


class Arrivals(Struct, frozen=True):
    """Whether a job's argument is what has arrived at it, unless it `ignores` that."""

    gathers: bool = False
    ignores: bool = False


NONE_ARRIVE = Arrivals()


class Call(Struct):
    """The part of a body that a worker needs to run the task; not if it was `refused`."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    timeout: float | None = None
    flow: Arrivals = NONE_ARRIVE
    refused: str | None = None


# A body without a trace.
NO_TRACE = Raw(b"")


class Policy(Struct):
    """The part of a body that decides what a failure means."""

    retry: Retry = Retry()
    on_dead: Stage | None = None
    named: bool = False
    trace: Raw = NO_TRACE


class WrittenPolicy(Struct):
    """The same as it is written: a preset may stand there by its name."""

    retry: Retry | str = Retry()
    on_dead: Stage | None = None
    named: bool = False
    trace: Raw = NO_TRACE


class Body(Struct, omit_defaults=True):
    """The whole body, in the order in which it is written; policy is encoded once per task.

    It is `named` where others follow from it and its caller chose its id, which may come again.
    `given` is in bodies that no app has made: what their producers said themselves, by name.
    """

    task: str
    args: Raw
    kwargs: Raw
    retry: Raw
    timeout: float | None = None
    on_dead: Stage | None = None
    gated: bool = False  # only its app can say whether a result is good
    sink: Stage | None = None
    flow: Any = None
    named: bool = False
    given: tuple[str, ...] | None = None


class Destination(Struct):
    """The part of a signed body that says where the result arrives."""

    arrives: tuple[str, int] | None = None


encode = msgspec.json.Encoder().encode
decode_call = msgspec.json.Decoder(Call).decode
_decode_policy = msgspec.json.Decoder(WrittenPolicy).decode


_decode_destination = msgspec.json.Decoder(Destination).decode


def arrives_of(body: bytes) -> tuple[str, int] | None:
    """The gathering job and the index at which the result of a signed job arrives."""
    return _decode_destination(body).arrives


def decode_policy(body: bytes) -> Policy:
    """The policy in a body; InvalidError if it names a preset that there is not."""
    written = _decode_policy(body)
    retry = preset(written.retry) if isinstance(written.retry, str) else written.retry
    return Policy(retry, written.on_dead, written.named, written.trace)


def traced(job: NewJob, trace: Raw) -> NewJob:
    """The job as part of a trace, which its body carries on to all that follows from it."""
    if not trace:
        return job
    return replace(job, body=b'%b,"trace":%b}' % (job.body[:-1], trace))
