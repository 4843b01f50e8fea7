"""Lanes: where claimable jobs wait, one per queue, scope and priority."""

from enum import IntEnum
from typing import Literal, NamedTuple

from mulligan.core.errors import InvalidError

ANYWHERE = "*"
# Before the name of a region: jobs that only workers of this region may take, whatever happens.
PINNED = "="


class Priority(IntEnum):
    """The priority of a job, and the order in which a worker reads lanes.

    A retry of an urgent job stays urgent but has its own lane, so that a budget or a cap can hold
    it back without holding back fresh urgent jobs.
    """

    NORMAL = 0
    RETRY = 1
    URGENT = 2
    URGENT_RETRY = 3


# A priority as callers give it, in Python, JSON or BSON, where 2 may be 2.0.
PriorityWord = Literal["normal", "retry", "urgent", 0, 1, 2]
WORDS: dict[str, Priority] = {
    "normal": Priority.NORMAL,
    "retry": Priority.RETRY,
    "urgent": Priority.URGENT,
}
BY_WORD: dict[str | float, Priority] = {
    said: number for word, number in WORDS.items() for said in (word, int(number), str(int(number)))
}


def priority_of(said: object) -> Priority:
    """The priority that a word or a number means."""
    if isinstance(said, str | int | float) and not isinstance(said, bool) and said in BY_WORD:
        return BY_WORD[said]
    words = ", ".join(f"{word} ({number})" for word, number in WORDS.items())
    raise InvalidError(f"priority {said!r} is not one of {words}")


def retry_priority(priority: int) -> Priority:
    """The priority of the lane in which retries of such a job wait."""
    return Priority.URGENT_RETRY if priority >= Priority.URGENT else Priority.RETRY


LABELS: dict[int, str] = {
    Priority.NORMAL: "fresh",
    Priority.URGENT: "urgent",
    Priority.URGENT_RETRY: "urgent-retry",
}


class Lane(NamedTuple):
    """One lane. Fresh jobs wait in order of enqueue, retries in order of due time."""

    queue: str
    scope: str
    priority: int

    @property
    def is_retry(self) -> bool:
        """Whether the jobs in it have failed before."""
        return self.priority in (Priority.RETRY, Priority.URGENT_RETRY)

    @property
    def is_urgent(self) -> bool:
        """Whether its jobs go before all others."""
        return self.priority >= Priority.URGENT

    @property
    def is_global(self) -> bool:
        """Whether any region may take from it, at once or after a grace."""
        return self.scope.startswith(ANYWHERE)

    @property
    def label(self) -> str:
        """The lane's name in logs, events and metrics."""
        if self.priority == Priority.RETRY:
            return "global-retry" if self.is_global else "region-retry"
        return LABELS.get(self.priority, "unknown")


def is_pinned(region: str) -> bool:
    """Whether jobs of this region, or in a lane of this scope, never run in another region."""
    return region.startswith(PINNED)


def pinned_to(region: str) -> str:
    """The region of jobs that are pinned to this one, and the scope of their lanes."""
    return region if is_pinned(region) else f"{PINNED}{region}"


def plain_region(region: str) -> str:
    """The region without the mark of pinned jobs."""
    return region.removeprefix(PINNED)


def away_from(region: str) -> str:
    """The scope of retries that any region but this one may take at once."""
    return f"*-{region}"


def towards(region: str) -> str:
    """The scope of retries that this region may take at once, and the others after a grace."""
    return f"*+{region}"
