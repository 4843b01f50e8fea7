"""Gathers: what arrives at a gathering job when a member has ended, and what has come of it so far.

A result arrives at the index of its member. With `return_exceptions` so does a failure, as a value;
without, a failure is only noted, at `-1 - index`, and its member is awaited still. A member that is
replayed while it is awaited takes its failure back.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from mulligan.core.errors import UNREADABLE
from mulligan.core.job import EXPIRED, Attempt, Job, Status

# How a member ended that did not succeed.
Ending = Literal["failed", "cancelled"]
# A failure among results begins so; no task returns such an object by chance.
MARK = "$failure"
BEGINNING = b'{"$failure":'
CANCELLED_TYPE, EXPIRED_TYPE, PURGED_TYPE = "Cancelled", "Expired", "Purged"


class Failure(Struct, frozen=True):
    """What a member of a gather gave instead of a result.

    - `job`: its id.
    - `type`: the class of the exception with its module, as in a job's history; `Cancelled`,
      `Expired` or `Purged` for a member that was ended otherwise.
    - `reason`: the exception's message, or why it was cancelled.
    - `attempts`: how many attempts it had.
    """

    job: str
    type: str
    reason: str
    attempts: int


class Written(Struct):
    """A failure as it is stored and sent."""

    failure: Failure = msgspec.field(name=MARK)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Written).decode


def failure_value(failure: Failure) -> bytes:
    """The failure as it arrives."""
    return _encode(Written(failure))


def lost_value(job: str, last: Attempt) -> bytes:
    """What arrives of a member that has failed for good."""
    return failure_value(Failure(job, last.type, last.message, last.number))


def cancelled_value(job: str, reason: str, retry_count: int, *, ran: bool) -> bytes:
    """What arrives of a member that was cancelled, while an attempt ran or not, or has expired."""
    kind = EXPIRED_TYPE if reason == EXPIRED else CANCELLED_TYPE
    return failure_value(Failure(job, kind, reason, retry_count + ran))


def purged_value(job: str, reason: str | None, retry_count: int) -> bytes:
    """What arrives of a failed member that is purged, if its failure has not."""
    return failure_value(Failure(job, PURGED_TYPE, reason or "", retry_count + 1))


def failure_in(value: bytes | None) -> Failure | None:
    """The failure that has arrived; None if it is a result."""
    if value is None or not value.startswith(BEGINNING):
        return None
    try:
        return _decode(value).failure
    except UNREADABLE:
        return None


def failure_from(value: object) -> Failure | None:
    """The failure in what JSON gave; None if it is something else."""
    if isinstance(value, Failure):
        return value
    if not isinstance(value, dict) or list(value) != [MARK]:
        return None
    try:
        return msgspec.convert(value, Written).failure
    except msgspec.ValidationError:
        return None


def as_read(value: bytes | None) -> bytes | None:
    """An arrival as every store gives it, however the store has spelled a failure."""
    failure = failure_in(value)
    return value if failure is None else failure_value(failure)


def arrives_at(index: int, ending: str, *, return_exceptions: bool) -> int:
    """Where the end of a member is kept with the job that gathers it."""
    return index if ending == "done" or return_exceptions else -1 - index


def results_of(arrived: Mapping[int, bytes | None]) -> dict[int, bytes | None]:
    """What a gathering job is called with, in order: not the failures that are only noted."""
    return {index: arrived[index] for index in sorted(arrived) if index >= 0}


def failures_of(arrived: Mapping[int, bytes | None]) -> list[tuple[int, Failure]]:
    """The failures so far, each with the index of its member, in order."""
    found = [
        (index if index >= 0 else -1 - index, failure)
        for index, value in arrived.items()
        if (failure := failure_in(value)) is not None
    ]
    return sorted(found, key=lambda each: each[0])


class Progress(Struct, frozen=True):
    """How many members a gather has, and how many have ended how.

    A member is `open` while it waits or runs. Without `return_exceptions` a failed member is not
    open, and is awaited until it is replayed.
    """

    members: int
    done: int
    failed: int
    cancelled: int

    @property
    def ended(self) -> int:
        """How many have ended."""
        return self.done + self.failed + self.cancelled

    @property
    def open(self) -> int:
        """How many wait or run."""
        return self.members - self.ended


def progress_of(job: Job, members: int) -> Progress:
    """The progress of a gather of so many members, as its gathering job tells."""
    failed, cancelled = job.members_failed, job.members_cancelled
    arrived = members - job.awaits
    done = arrived - failed - cancelled if job.return_exceptions else arrived
    return Progress(members, max(0, done), failed, cancelled)


def is_frozen(job: Job) -> bool:
    """Whether a gathering job was cancelled before all members had arrived.

    Arrivals are not counted after that, so that only the members tell how far they are.
    """
    return job.status == "cancelled" and job.awaits > 0


def progress_after(cancelled: Progress, members: Sequence[Status | None]) -> Progress:
    """Progress after the gathering job was cancelled, by the status of each member's newest job.

    `cancelled` is the progress at that time. It tells about members without a stored job (None):
    they had ended and were deleted since. One that had not arrived counts as cancelled.
    """
    seen = Counter(members)
    deleted = seen[None]
    done = min(max(cancelled.done - seen["done"], 0), deleted)
    failed = min(max(cancelled.failed - seen["failed"], 0), deleted - done)
    return Progress(
        len(members),
        seen["done"] + done,
        seen["failed"] + failed,
        seen["cancelled"] + deleted - done - failed,
    )


def raw_results(arrived: Mapping[int, bytes | None]) -> Raw:
    """What a gathering job is called with, as a JSON list."""
    each = (b"null" if value is None else value for value in results_of(arrived).values())
    return Raw(b"[" + b",".join(each) + b"]")
