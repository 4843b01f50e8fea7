"""A call as another queue has it, and one that is left there."""

from typing import Any

from msgspec import Struct

from mulligan.core.retry import Retry

PICKLED = "it is pickled; send it as JSON"


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
