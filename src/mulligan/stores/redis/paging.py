"""Listing jobs: the index is looked through piece by piece until the page is full."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mulligan.core.page import Page, Selection, cursor_number
from mulligan.stores.redis.decoding import attempt_of, job_of
from mulligan.stores.redis.encoding import escape

if TYPE_CHECKING:
    from mulligan.core.job import Job

PIECE = 200

Read = Callable[..., Awaitable[Any]]


async def read_page(
    read: Read, selection: Selection, limit: int, after: str | None, *, bodies: bool, looks: int
) -> Page:
    """The newest `limit` jobs that match, below the place `after`."""
    found: list[tuple[str, Job]] = []
    # A lone failed queue has an index of its own, however many jobs there are beside.
    index = "order"
    if selection.status == "failed" and selection.queue is not None:
        index = f"failed:{escape(selection.queue)}"
    below = "+inf" if after is None else f"({cursor_number(after)}"
    wanted = (
        selection.status or "",
        escape(selection.queue or ""),
        escape(selection.region or ""),
        selection.task or "",
        int(bodies),
    )
    looked, last = 0, None
    while below and len(found) <= limit and last is None:
        following, *rows = await read("page", index, below, PIECE, *wanted)
        for id_, place, *row in rows:
            looked += 1
            if says(row[-1], selection.text):
                found.append((place.decode(), job_of(id_.decode(), row)))
            if selection.text is not None and looked == looks:
                last = place.decode()
                break
        below = f"({following.decode()}" if following else ""
    page = found[:limit]
    if len(found) > limit and page:
        last = page[-1][0]
    return Page([job for _, job in page], last)


def says(failure: bytes, text: str | None) -> bool:
    """Whether the last failure contains the text that is sought."""
    if text is None:
        return True
    if not failure:
        return False
    return text in attempt_of(failure).reason
