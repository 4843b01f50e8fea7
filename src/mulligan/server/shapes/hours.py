"""When delayed jobs fall due."""

from msgspec import UNSET, Struct, UnsetType

from mulligan.server.shapes.names import Name


class HoursQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The queue; all queues if none is given."""

    queue: Name | UnsetType = UNSET


class DelayedHours(Struct, frozen=True):
    """Delayed jobs by the hour from now in which they fall due.

    Unless `complete`, only the newest `looked_at` pending jobs were counted.
    """

    hours: list[int]
    later: int
    looked_at: int
    complete: bool
