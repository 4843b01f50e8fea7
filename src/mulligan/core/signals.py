"""Signals: what a task may return or raise to say what should happen next.

And those that a task is sent: `SoftTimeout` and `LeaseLost`.
"""

from collections.abc import Iterable
from typing import ClassVar

from mulligan.core.checks import Seconds, check_seconds, shown
from mulligan.core.errors import InvalidError, MulliganError
from mulligan.core.limits import check_paused_name


class Signal(MulliganError):
    """The base of all signals, which may be returned or raised."""


class RetryAfter(Signal):
    """This attempt failed; try again after this delay instead of the policy's own.

    With `pause`, a limit or several, no job of those starts anywhere until then.
    """

    def __init__(
        self, delay: Seconds, reason: str = "", *, pause: str | Iterable[str] = ()
    ) -> None:
        super().__init__(reason or "the task asked to be retried")
        self.delay = check_seconds("RetryAfter", delay)
        names = (pause,) if isinstance(pause, str) else pause
        if not isinstance(names, Iterable):
            raise InvalidError(f"pause {shown(pause)} must be the name of a limit, or several")
        self.pause = tuple(check_paused_name(name) for name in names)


class Fail(Signal):
    """This attempt failed, and no retry would help."""

    # The type of the failure in the history, also for subclasses that users declare.
    kind: ClassVar[str] = "Fail"

    def __init__(self, reason: str, code: str | None = None) -> None:
        super().__init__(reason)
        self.code = code


class BadSignature(Fail):
    """The job, or a value that it is given, is not signed by a key of this worker."""

    kind = "BadSignature"


class UnreadableJob(Fail):
    """The stored arguments of the job cannot be read."""

    kind = "UnreadableJob"


class Snooze(Signal):
    """Run this attempt later; it uses no retry."""

    def __init__(self, delay: Seconds) -> None:
        super().__init__("the task asked to run later")
        self.delay = check_seconds("Snooze", delay)


class SoftTimeout(MulliganError):
    """Raised inside a task that has run for its `soft_timeout`; one that catches it may go on."""


class LeaseLost(BaseException):
    """Raised inside a task that records something after its lease was lost: its attempt ends.

    No `except Exception` swallows it: what runs on would only do work that another worker does.
    """
