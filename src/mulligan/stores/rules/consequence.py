"""Consequences of a rule for other jobs, as values that may be carried out twice."""

from msgspec import Struct

from mulligan.core.job import NewJob


class Arrived(Struct, frozen=True, gc=False):
    """A member ended with this value: its gathering job may start after the last member.

    `how` is `done` or `failed`.
    """

    gathering: str
    index: int
    how: str
    value: bytes | None


class Missed(Struct, frozen=True, gc=False):
    """A member was canceled: it arrives as a failure, or its gathering job is canceled as well.

    `ran` says whether it was running.
    """

    member: str
    gathering: str
    index: int
    reason: str
    retry_count: int
    ran: bool


class Purged(Struct, frozen=True, gc=False):
    """A failed member was purged: it cannot be replayed, and so will never arrive."""

    member: str
    gathering: str
    index: int
    last_failure: str | None
    retry_count: int


class Withdrawn(Struct, frozen=True, gc=False):
    """A failed member is replayed: its gathering job awaits it again, if it has not started."""

    member: str
    gathering: str
    index: int


class Next(Struct, frozen=True, gc=False):
    """A job that follows."""

    job: NewJob


Consequence = Arrived | Missed | Purged | Withdrawn | Next
