"""When what was put off falls due."""

from msgspec import UNSET, Struct, UnsetType

from mulligan.server.shapes.names import Name


class HoursQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Of which queue; of all where none is named."""

    queue: Name | UnsetType = UNSET


class DelayedHours(Struct, frozen=True):
    """Pending jobs that are not due yet, by the hour from now in which they will be.

    Unless `complete`, they were counted among the newest `looked_at` pending jobs only.
    """

    hours: list[int]
    later: int
    looked_at: int
    complete: bool
