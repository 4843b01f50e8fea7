"""Schedules in requests and answers."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from mulligan.core.schedule import CatchUp
from mulligan.core.schedule_view import SHOWN_TICKS, ScheduleView
from mulligan.core.written_retry import Retry
from mulligan.server.shapes.names import GivenPriority, Name, Option, Span, Wait

MOST_TICKS = 100


class ScheduleList(Struct, frozen=True):
    """All schedules, by name. Secrets in their arguments are hidden."""

    schedules: list[ScheduleView]


class PutSchedule(Struct, frozen=True, forbid_unknown_fields=True):
    """When a call runs by itself, and which: a task's name, its arguments and options.

    Without a task the schedule keeps the call that it has.
    """

    cron: Name | UnsetType | None = UNSET
    every: Wait | UnsetType | None = UNSET
    timezone: Name | UnsetType | None = UNSET
    catch_up: CatchUp | UnsetType | None = UNSET
    task: Name | UnsetType = UNSET
    args: Annotated[list[Any], Meta(max_length=10_000)] | UnsetType | None = UNSET
    kwargs: dict[str, Any] | UnsetType | None = UNSET
    queue: Option | UnsetType | None = UNSET
    region: Option | UnsetType | None = UNSET
    priority: GivenPriority | UnsetType | None = UNSET
    retry: Retry | Option | UnsetType | None = UNSET
    timeout: Span | UnsetType | None = UNSET
    unique_key: Option | UnsetType | None = UNSET
    expires: Span | UnsetType | None = UNSET
    keep: Wait | UnsetType | None = UNSET
    limits: Option | list[Name] | dict[Name, Annotated[int, Meta(ge=1)]] | UnsetType | None = UNSET
    fairness_key: Option | UnsetType | None = UNSET
    pinned: bool | UnsetType | None = UNSET


class TicksQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A timing, as a schedule has it, and how many of its ticks to show."""

    cron: Name | UnsetType = UNSET
    every: Wait | UnsetType = UNSET
    timezone: Name | UnsetType = UNSET
    count: Annotated[int, Meta(ge=1, le=MOST_TICKS)] = SHOWN_TICKS


class Ticks(Struct, frozen=True):
    """The next ticks, in seconds since 1970 by the store's clock."""

    ticks: list[float]


class Removed(Struct, frozen=True):
    """The name of a schedule that is no more."""

    removed: str
