"""What an attempt gave, and what is to become of its job: two small vocabularies of values."""

from typing import Literal

from msgspec import Struct

from mulligan.core.job import Attempt, Lease, NewJob
from mulligan.core.lane import Lane

# What became of an outcome: `already` if it was written before, `stale` if its lease was lost.
Verdict = Literal["written", "already", "stale"]


class Succeeded(Struct, frozen=True, gc=False):
    """The task returned, and its result passed the gate."""

    result: bytes | None


class Failed(Struct, frozen=True, gc=False):
    """The task raised, timed out, or its result was refused.

    `about_region` is False where what it raised says nothing about where it ran.
    """

    type: str
    message: str
    code: str | None = None
    delay: float | None = None
    non_retryable: bool = False
    refused: str | None = None
    about_region: bool = True


class Lost(Struct, frozen=True, gc=False):
    """The worker stopped beating while it held the job."""

    non_retryable: bool = False


class Snoozed(Struct, frozen=True, gc=False):
    """The task asked to run later; no attempt is used."""

    delay: float


class Drained(Struct, frozen=True, gc=False):
    """The worker stopped before the attempt began; no attempt is used."""


Result = Succeeded | Failed | Lost | Snoozed | Drained


class Done(Struct, frozen=True, gc=False):
    """Finished: store the result and, in the same step, enqueue what comes next."""

    lease: Lease
    result: bytes | None = None
    next: tuple[NewJob, ...] = ()


class Again(Struct, frozen=True, gc=False):
    """A retry, in this lane, when the delay has passed; `trail` is kept. Raises retry_count.

    A `free` one, after a failed probe, raises snoozes instead: it used none of the job's retries.
    """

    lease: Lease
    lane: Lane
    delay: float
    failure: Attempt
    trail: str = ""
    free: bool = False


class Later(Struct, frozen=True, gc=False):
    """Back to its lane for later, at the task's own wish. Raises snoozes by one."""

    lease: Lease
    delay: float


class Dead(Struct, frozen=True, gc=False):
    """Failed for good: a dead letter, until replayed or purged."""

    lease: Lease
    failure: Attempt
    next: tuple[NewJob, ...] = ()


class Returned(Struct, frozen=True, gc=False):
    """Back to the place in its lane that it was taken from, as if never claimed."""

    lease: Lease


class Keyed(Struct, frozen=True, gc=False):
    """As Returned, and from now on under this concurrency key; `trail` is kept."""

    lease: Lease
    concurrency_key: str
    concurrency_limit: int
    trail: str = ""


class Cancelled(Struct, frozen=True, gc=False):
    """Ended without a result, for this reason."""

    lease: Lease
    reason: str


Outcome = Done | Again | Later | Dead | Returned | Keyed | Cancelled
