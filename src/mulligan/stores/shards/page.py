"""Pages over all shards: newest first, as far as the clocks of shards agree.

A page is read twice: first without bodies, to see how many jobs of it are each shard's, and then so
many from each, because only where a page of a shard ends does that shard say how to go on.
"""

from collections.abc import Sequence

import msgspec

from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.job import Job
from mulligan.core.page import Page, Selection
from mulligan.stores.shards.connection import Shard, Shards

# Where the next page begins in each shard: None at its beginning, False where it has ended.
Cursor = list[str | bool | None]
_decode = msgspec.json.Decoder(Cursor).decode
_encode = msgspec.json.Encoder().encode


async def page(
    shards: Shards,
    selection: Selection,
    limit: int,
    after: str | None,
    *,
    bodies: bool,
    looks: int,
) -> Page:
    """Jobs that match, of all shards that answer."""
    cursor = read_cursor(after, shards.count)
    fewer = max(1, looks // shards.count)

    async def read(shard: Shard, most: int, *, bodies: bool) -> Page:
        begin = cursor[shard.number]
        return await shard.store.page(
            selection,
            most,
            begin if isinstance(begin, str) else None,
            bodies=bodies,
            looks=fewer,
        )

    open_shards = [each for each in shards.present if cursor[each.number] is not False]
    if not open_shards:
        return Page([], None)
    seen = dict(await shards.each(lambda each: read(each, limit, bodies=False), open_shards))
    counts = parts_of([(number, each.jobs) for number, each in seen.items()], limit)
    jobs: list[Job] = []
    taken = [shards.all[number] for number in counts]
    got = await shards.each(lambda each: read(each, counts[each.number], bodies=bodies), taken)
    empty = [(number, first) for number, first in seen.items() if not first.jobs]
    for number, part in (*got, *empty):
        cursor[number] = part.after if part.after is not None else False
        jobs += part.jobs
    jobs.sort(key=lambda job: -job.created_at)
    more = any(cursor[each.number] is not False for each in open_shards)
    return Page(jobs, _encode(cursor).decode() if more else None)


def parts_of(found: Sequence[tuple[int, Sequence[Job]]], limit: int) -> dict[int, int]:
    """How many jobs of each shard are on the page: of all, those that were accepted last."""
    newest = sorted(
        (
            (-job.created_at, index, number)
            for number, jobs in found
            for index, job in enumerate(jobs)
        )
    )
    counts: dict[int, int] = {}
    for _, _, number in newest[:limit]:
        counts[number] = counts.get(number, 0) + 1
    return counts


def read_cursor(after: str | None, count: int) -> Cursor:
    """Where each shard goes on; shards that were added since have nothing older."""
    if after is None:
        return [None] * count
    try:
        cursor = _decode(after)
    except UNREADABLE:
        cursor = []
    if not cursor or len(cursor) > count or True in cursor:
        raise InvalidError(f"after {after[:40]!r} is not where a page ended; leave it out")
    return cursor + [False] * (count - len(cursor))
