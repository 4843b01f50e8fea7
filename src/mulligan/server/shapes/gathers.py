"""A gather in answers."""

from msgspec import Struct

from mulligan.core.job import Status
from mulligan.server.shapes.names import Words


class FailedMember(Struct, frozen=True):
    """A member that did not succeed, by its index among the calls."""

    index: int
    job: str
    type: str
    reason: str
    attempts: int


class Gather(Struct, frozen=True):
    """A gather: its gathering job, how many members have ended how, and the first 100 failures.

    `open` is how many wait or run. Unless it has `return_exceptions`, it waits until those that
    failed are replayed and succeed.
    """

    id: str
    task: str
    status: Status
    return_exceptions: bool
    members: int
    done: int
    failed: int
    cancelled: int
    open: int
    failures: list[FailedMember]


class GatherChanged(Struct, frozen=True):
    """How many jobs were changed, and the gather as it is now."""

    changed: int
    gather: Gather


class CancelGather(Struct, frozen=True, forbid_unknown_fields=True):
    """The reason that is kept with each job."""

    reason: Words = "cancelled through the API"
