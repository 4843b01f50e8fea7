"""Results (what an attempt gave) and outcomes (what becomes of its job)."""

from typing import Literal

from msgspec import Struct

from mulligan.core.job import Attempt, Lease, NewJob
from mulligan.core.lane import Lane

# What became of an outcome: `already` if it was written before, `stale` if its lease was lost.
Verdict = Literal["written", "already", "stale"]


class Succeeded(Struct, frozen=True, gc=False):
    """The task returned, and its result passed the result gate."""

    result: bytes | None


class Failed(Struct, frozen=True, gc=False):
    """The task raised, timed out, or its result was refused.

    `about_region` is False if the failure does not count against the region. No retry follows if
    it is `non_retryable`. `classes` are those of an exception, by name: what a policy may name. It
    asks to wait for at least `least_delay`, and to pause the limits of these names as long.
    """

    type: str
    message: str
    code: str | None = None
    delay: float | None = None
    non_retryable: bool = False
    refused: str | None = None
    about_region: bool = True
    traceback: str | None = None
    classes: tuple[str, ...] = ()
    least_delay: float = 0.0
    pause: tuple[str, ...] = ()


class Lost(Struct, frozen=True, gc=False):
    """The worker stopped beating while it held the job."""

    non_retryable: bool = False


class Snoozed(Struct, frozen=True, gc=False):
    """The task asked to run later; no attempt is used."""

    delay: float


class Drained(Struct, frozen=True, gc=False):
    """The worker stopped before the attempt began; no attempt is used."""


Result = Succeeded | Failed | Lost | Snoozed | Drained


class LimitUse(Struct, frozen=True, gc=False):
    """What an attempt says of limits: what it spent besides its cost, and which to pause how long.

    After a failure that asked to be retried after so long, those limits of the job are paused too
    that `pause_on_retry_after`. It is written with the outcome, and so once, however often sent.
    """

    spent: tuple[tuple[str, int], ...] = ()
    pauses: tuple[tuple[str, float], ...] = ()
    retry_after: float | None = None


class Done(Struct, frozen=True, gc=False):
    """Finished: store the result and, in the same step, enqueue what comes next.

    With `hands_on` it does not arrive at the job that awaits it: one of the next will instead.
    Of a signed job `arrives` says where it arrives: the gathering job and the index.
    """

    lease: Lease
    result: bytes | None = None
    next: tuple[NewJob, ...] = ()
    hands_on: bool = False
    use: LimitUse | None = None
    arrives: tuple[str, int] | None = None


class Again(Struct, frozen=True, gc=False):
    """A retry, in this lane, when the delay has passed; `trail` is kept. Raises retry_count.

    With `free`, after a failed probe, it raises snoozes instead and uses no retry.
    """

    lease: Lease
    lane: Lane
    delay: float
    failure: Attempt
    trail: str = ""
    free: bool = False
    use: LimitUse | None = None


class Later(Struct, frozen=True, gc=False):
    """Back to its lane for later, because the task asked for that. Raises snoozes."""

    lease: Lease
    delay: float
    use: LimitUse | None = None


class Dead(Struct, frozen=True, gc=False):
    """Failed for good: a dead letter, until replayed or purged."""

    lease: Lease
    failure: Attempt
    next: tuple[NewJob, ...] = ()
    use: LimitUse | None = None


class Returned(Struct, frozen=True, gc=False):
    """Back to its former position in its lane, as if never claimed."""

    lease: Lease


class Limited(Struct, frozen=True, gc=False):
    """As Returned, and from now on with these limits and this fairness key; `trail` is kept."""

    lease: Lease
    limits: str | None
    fairness_key: str | None
    trail: str = ""


class Cancelled(Struct, frozen=True, gc=False):
    """Ended without a result, for this reason."""

    lease: Lease
    reason: str


Outcome = Done | Again | Later | Dead | Returned | Limited | Cancelled
