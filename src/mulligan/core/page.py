"""Lists of jobs: which to list, and a page of them."""

from msgspec import Struct

from mulligan.core.errors import InvalidError
from mulligan.core.job import Job, Status

# How many jobs one page searches for a text.
LOOKS = 10_000
# The digits of the largest number that every store can hold.
LONGEST_CURSOR = 18


class Selection(Struct, frozen=True):
    """Which jobs to list: every field that is set must match; `text` is searched in failures."""

    status: Status | None = None
    queue: str | None = None
    region: str | None = None
    task: str | None = None
    text: str | None = None


class Page(Struct, frozen=True):
    """Jobs, and an opaque cursor of the next page; None after the last."""

    jobs: list[Job]
    after: str | None


def cursor_number(cursor: str) -> int:
    """The number at which a page ended, for stores whose cursors are numbers."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= LONGEST_CURSOR):
        raise InvalidError(f"after {cursor[:40]!r} is not where a page ended; leave it out")
    return int(cursor)
