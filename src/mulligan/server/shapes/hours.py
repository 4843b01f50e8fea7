"""When delayed jobs fall due, and the last hour."""

from msgspec import UNSET, Struct, UnsetType

from mulligan.core.hour import Interval, TaskHour
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


class HourQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A queue, a task, or both; all of them if neither is given."""

    queue: Name | UnsetType = UNSET
    task: Name | UnsetType = UNSET


class Hour(Struct, frozen=True):
    """The minutes of the last hour, oldest first; the last one is under way.

    Waits are those of fresh jobs, from due to start; they are not known by task.
    """

    minutes: list[Interval]


class TasksHour(Struct, frozen=True):
    """Tasks in the order of their names."""

    tasks: list[TaskHour]
