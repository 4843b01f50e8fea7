"""Unique keys: until when a job holds one, and what enqueuing again does to a debounced job.

Most jobs hold their key until they have ended. A debounced one holds it until it first starts,
and while it waits it takes over the call of each later enqueue. A throttled one holds it until its
time is over too, however it ended, unless it was cancelled.
"""

from math import ceil
from typing import Protocol

from mulligan.core.checks import rounded
from mulligan.core.errors import InvalidError
from mulligan.core.job import NewJob, Status, never_started
from mulligan.core.settings import LONGEST_KEEP, Settings

# How many times as long as `debounce` a job is put off at most, unless `debounce_max` says.
DEBOUNCES = 10


class KeyHolder(Protocol):
    """What of a job says whether it holds its unique key."""

    @property
    def status(self) -> Status:
        """Its status."""

    @property
    def retry_count(self) -> int:
        """How many retries it was granted."""

    @property
    def snoozes(self) -> int:
        """How often it asked to run later."""

    @property
    def replay(self) -> int:
        """How often it was replayed."""

    @property
    def debounce_until(self) -> float | None:
        """Until when it may be put off."""

    @property
    def unique_until(self) -> float | None:
        """Until when it is throttled."""


def waits_to_start(job: KeyHolder) -> bool:
    """Whether no attempt has come of the job, and none is under way."""
    return job.status == "pending" and never_started(job.retry_count, job.snoozes, job.replay)


def holds_key(job: KeyHolder, now: float) -> bool:
    """Whether the job that was last given its unique key still holds it."""
    match job.status:
        case "cancelled":
            return False
        case "done" | "failed":
            return job.unique_until is not None and job.unique_until > now
        case _:
            return job.debounce_until is None or waits_to_start(job)


def takes_over(holder: str, new: NewJob) -> bool:
    """Whether a debounced job of this id, which holds the key, takes over the call of the new."""
    return new.debounce_max is not None and new.debounces in (None, holder)


def debounced_due(now: float, delay: float, until: float) -> float:
    """When a job starts that is put off again: never later than was decided at first."""
    return min(rounded(now + delay), until)


def longest_debounce(debounce: float, debounce_max: float | None) -> float:
    """For how long a debounced job is put off at most."""
    return debounce * DEBOUNCES if debounce_max is None else debounce_max


def throttled_keep(keep: int | None, unique_for: float) -> int:
    """For how many seconds a throttled job is kept: at least as long as it holds its key."""
    usual = Settings().keep_done if keep is None else keep
    return min(ceil(max(usual, unique_for)), LONGEST_KEEP)


def check_unique(
    *,
    key: str | None,
    debounce: float | None,
    debounce_max: float | None,
    unique_for: float | None,
    expires: float | None,
) -> None:
    """Refuse a debounce or a throttle that could not do what it says."""
    for name, value in (("debounce", debounce), ("unique_for", unique_for)):
        if value is not None and key is None:
            raise InvalidError(
                f"{name} {value:g} needs a unique_key, which says what is the same;"
                f" add unique_key=, or take {name}= away"
            )
    if debounce is None:
        if debounce_max is not None:
            raise InvalidError(
                f"debounce_max {debounce_max:g} needs debounce; add debounce=, such as"
                f" debounce={debounce_max / DEBOUNCES:g}"
            )
        return
    if unique_for is not None:
        raise InvalidError(
            f"debounce {debounce:g} frees its key at the first start, and unique_for"
            f" {unique_for:g} holds it; use one of them"
        )
    longest = longest_debounce(debounce, debounce_max)
    if longest < debounce:
        raise InvalidError(
            f"debounce_max {longest:g} is shorter than debounce {debounce:g}; raise debounce_max"
        )
    if expires is not None and longest >= expires:
        raise InvalidError(
            f"debounce_max {longest:g} is not shorter than expires {expires:g}: a job that is put"
            " off so long would expire; lower debounce_max, or raise expires"
        )
