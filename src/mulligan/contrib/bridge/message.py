"""A call as another queue has it, and one that is left there."""

from typing import Any

from msgspec import Struct

from mulligan.core.checks import check_name, clean
from mulligan.core.errors import InvalidError
from mulligan.core.retry import Retry

PICKLED = "it is pickled; send it as JSON"
# How many bytes of a message are read, and how many characters of an error are told.
LONGEST = 4 * 1024 * 1024
TOO_LONG = (
    f"it has more than the {LONGEST // 1024**2} MiB that the bridge reads; let its system run it"
)
REASON_LIMIT = 200
MOST_RETRIES = 1000
# The last second of the year 9999, and the first that a message may name.
LATEST = 253_402_300_799.0


class Message(Struct, frozen=True):
    """A call that waits in another queue.

    `raw` is what stands there, `member` the name under which it is removed, and `key` whence.
    Times are in seconds since 1970. Its `retries` are those that it has had; it brings a `retry`
    policy if its producer gave it one.
    """

    key: str
    member: str
    raw: str
    id: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    due: float | None = None
    expires_at: float | None = None
    retries: int = 0
    retry: Retry | None = None
    timeout: float | None = None


class Left(Struct, frozen=True):
    """A message that stays where it is, and why."""

    id: str
    task: str
    reason: str


def checked(message: Message) -> Message:
    """Return the message, or refuse one whose values no store could keep."""
    check_name("id", message.id)
    check_name("task", message.task)
    if not 0 <= message.retries <= MOST_RETRIES:
        raise InvalidError(
            f"retries {message.retries} must be 0 to {MOST_RETRIES}; let its system run it"
        )
    for name, at in (("eta", message.due), ("expires", message.expires_at)):
        if at is not None and not -LATEST <= at <= LATEST:
            raise InvalidError(f"{name} {at} must be a time before the year 10000")
    return message


def unreadable(id_: str, task: str, what: str, error: Exception) -> Left:
    """A message that stays because reading it, or making a job of it, failed."""
    said = clean(str(error) or type(error).__name__)[:REASON_LIMIT]
    return Left(id_, task, f"{what}: {said}")
