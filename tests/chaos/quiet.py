"""Whether a store has nothing left to do."""

import asyncio

from mulligan.core.errors import StoreError
from mulligan.stores import make_store
from mulligan.stores.contract import Stats


def open_once(url: str) -> None:
    """Make the schema, so that nobody is hurt while it is half made."""
    asyncio.run(stats_of(url))


def unfinished(url: str) -> int:
    """How many jobs wait, gather or run; at least one while the store does not answer."""
    try:
        stats = asyncio.run(stats_of(url))
    except (StoreError, OSError):
        return 1
    waiting = sum(lane.ready + lane.delayed for lane in stats.lanes)
    return waiting + sum(stats.running.values()) + sum(stats.gathering.values())


def has_finished_some(url: str) -> bool:
    """Whether workers are up: a job has ended."""
    return bool(asyncio.run(stats_of(url)).ended)


async def stats_of(url: str) -> Stats:
    """The store at this instant."""
    store = make_store(url)
    await store.open()
    try:
        return await store.stats()
    finally:
        await store.close()
