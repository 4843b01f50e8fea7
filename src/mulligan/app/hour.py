"""The last hour of a store: throughput, runtimes and waits by the minute, and by task."""

from mulligan.app.shard_away import unless_away
from mulligan.core.counts import NO_COUNTS
from mulligan.core.hour import (
    NOTES,
    Interval,
    Sums,
    TaskHour,
    intervals,
    read_minutes,
    sums_at,
    tasks_between,
)
from mulligan.stores.contract import Store


class LastHour:
    """What is noted of the last hour, and what has been counted since."""

    def __init__(self, minutes: list[Sums]) -> None:
        self._minutes = minutes

    def intervals(self, queue: str | None = None, task: str | None = None) -> list[Interval]:
        """What happened in each minute, everywhere or in a queue, or to a task."""
        return intervals(self._minutes, queue, task)

    def tasks(self) -> list[TaskHour]:
        """Every task that has run in this store, with what it did in this hour."""
        return tasks_between(self._minutes[0], self._minutes[-1])


async def last_hour(store: Store) -> LastHour:
    """Read the last hour; it begins when the store was first counted in, if that is later."""
    now = (await store.facts()).now
    minutes = read_minutes(await unless_away(store.notes(NOTES), {}), now)
    latest = sums_at((await unless_away(store.counts(), NO_COUNTS)).ever, now)
    return LastHour([*(minutes or [Sums(now, [], [], [])]), latest])
