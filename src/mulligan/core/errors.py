"""The exceptions that mulligan raises, and those that decoding stored data may raise."""

from typing import TYPE_CHECKING

from msgspec import MsgspecError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mulligan.core.job import Attempt

# Stored data may be no JSON, of another type, no UTF-8, or nested too deeply.
UNREADABLE = (MsgspecError, UnicodeDecodeError, RecursionError)


class MulliganError(Exception):
    """The base of all of them."""


class InvalidError(MulliganError, ValueError):
    """A value breaks a rule; the message names the value, the rule and the remedy."""


class StoreError(MulliganError):
    """The store refused an operation or failed, and wrote nothing of it."""


class StoreDamagedError(StoreError):
    """The store contains what mulligan did not write, and cannot do the operation."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached now, or its disk is full; trying again later may help."""


class ShardAwayError(StoreUnavailableError):
    """One of several shards cannot be reached now; calls that need only others go on.

    Where several things were sent, `answers` are what the others have said of each; None where
    nothing was.
    """

    def __init__(self, message: str, answers: "Sequence[Any]" = ()) -> None:
        self.answers = list(answers)
        super().__init__(message)


class UnknownJobError(MulliganError, LookupError):
    """No job of this id is stored."""


def unknown_job(job: str) -> UnknownJobError:
    """What who asks for a job is told: a gather has an id, too, and is no job."""
    return UnknownJobError(
        f"no job {job!r} is stored; ended ones are deleted after a while, and a gather is shown by:"
        f" mulligan gather {job}"
    )


class UnknownScheduleError(MulliganError, LookupError):
    """No schedule of this name is stored."""


class UnknownLimitError(MulliganError, LookupError):
    """No limit covers this name."""


class JobFailedError(MulliganError):
    """The awaited job ended as failed; the text is its last failure and that one's traceback.

    `attempts` are its failed and lost attempts, oldest first, as `history()` gives them; `type` and
    `traceback` are those of the last.
    """

    def __init__(self, message: str, attempts: "Sequence[Attempt]" = ()) -> None:
        self.attempts = list(attempts)
        last = self.attempts[-1] if self.attempts else None
        self.type = None if last is None else last.type
        self.traceback = None if last is None else last.traceback
        super().__init__(f"{message}\n\n{self.traceback}" if self.traceback else message)


class JobCancelledError(MulliganError):
    """The awaited job was cancelled; the message is the reason."""


class ResultTimeoutError(MulliganError, TimeoutError):
    """The awaited job had not ended when the time was up."""
