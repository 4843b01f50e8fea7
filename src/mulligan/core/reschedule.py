"""A change of a schedule, as core decides it and a store carries it out."""

from msgspec import Struct

from mulligan.core.job import NewJob

# The reason of a tick that is cancelled, and deleted right after. SQL and Lua have the same text.
WITHDRAWN = "its schedule was changed"


class Reschedule(Struct, frozen=True):
    """Done as a whole if the record of the schedule is still `before`, or else not at all.

    Records are None where there is none. `withdraw` are ids of ticks to delete if they are pending
    and have never started. An `edit` makes the workers that place ticks look again.
    """

    name: str
    before: bytes | None
    after: bytes | None
    withdraw: tuple[str, ...] = ()
    place: tuple[NewJob, ...] = ()
    edit: bool = False
