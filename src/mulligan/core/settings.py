"""Every default and limit of a running system; `mulligan settings` prints them."""

from math import ceil
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from mulligan.core.checks import check_number, check_seconds
from mulligan.core.errors import InvalidError
from mulligan.core.nearest import NamedFields

# The lowest priority that a process of Unix can have.
MOST_NICE = 19


class Settings(Struct, frozen=True, metaclass=NamedFields):
    """How workers behave; an app may change any of these.

    A lease must be longer than a few beats, or a worker would lose its jobs between two of them.
    """

    lease: float = 15.0
    beat: float = 5.0
    concurrency: int = 100
    drain_timeout: float = 30.0
    keep_done: float = 3600.0
    payload_limit: int = 256 * 1024
    result_limit: int = 256 * 1024
    abandoned_limit: int = 4
    unknown_task_delay: float = 3.0
    retry_after_limit: float = 3600.0
    threads: int | None = None
    hold_through_backoff: bool = False
    pool_size: int | None = None
    pool_nice: int = 5

    def __post_init__(self) -> None:
        """Refuse settings under which a healthy worker would lose its leases."""
        for name in (
            "lease",
            "beat",
            "drain_timeout",
            "keep_done",
            "unknown_task_delay",
            "retry_after_limit",
        ):
            force_setattr(self, name, check_seconds(name, getattr(self, name)))
        if self.beat <= 0:
            message = f"beat {self.beat:g}s must be above 0"
            raise InvalidError(message)
        if self.lease <= self.beat:
            message = (
                f"lease {self.lease:g}s must be longer than beat {self.beat:g}s;"
                " raise lease= or lower beat="
            )
            raise InvalidError(message)
        for name in ("concurrency", "abandoned_limit", "payload_limit", "result_limit"):
            check_number(name, getattr(self, name), whole=True)
            if getattr(self, name) < 1:
                message = f"{name} {getattr(self, name)!r} must be at least 1"
                raise InvalidError(message)
        for name, none in (
            ("threads", "a few more than processors"),
            ("pool_size", "one per processor"),
        ):
            if (given := getattr(self, name)) is not None:
                check_number(name, given, whole=True)
                if given < 1:
                    message = f"{name} {given!r} must be at least 1; None is {none}"
                    raise InvalidError(message)
        check_number("pool_nice", self.pool_nice, whole=True)
        if not 0 <= self.pool_nice <= MOST_NICE:
            message = f"pool_nice {self.pool_nice!r} must be from 0 to {MOST_NICE}, as nice has it"
            raise InvalidError(message)


LEASE = Settings().lease
# In seconds: as many as every store can count, some 68 years.
LONGEST_KEEP = 2**31 - 1


def kept_for(seconds: Any, lease: float = LEASE) -> int:
    """How long a job is kept that asks for so many seconds: whole ones, and a lease at least.

    A commit that is sent again must find the job as it was written.
    """
    return min(ceil(max(check_seconds("keep", seconds), lease)), LONGEST_KEEP)


BATCH_LIMIT = 1000
# The placeholder for the app in a command, if its name is not known.
AN_APP = "APP"
HISTORY_LIMIT = 50
TEXT_LIMIT = 4000
# Bytes of a traceback.
TRACEBACK_LIMIT = 8 * 1024
# What a job may record: steps, bytes of each and of a checkpoint, log lines, characters of each.
STEP_LIMIT = 1000
RECORD_LIMIT = 256 * 1024
LOG_LIMIT = 200
LINE_LIMIT = 2000
# Seconds between two sendings of a job's progress.
PROGRESS_EVERY = 0.5


def check_batch(count: int) -> None:
    """Refuse a batch over the limit."""
    if count > BATCH_LIMIT:
        message = f"a batch of {count} is over the limit of {BATCH_LIMIT}; send it in parts"
        raise InvalidError(message)
