"""What a store says of a run: whether it has begun, who is busy, whether it is over."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mulligan.core.counts import STALE, Counts
from mulligan.core.errors import StoreError
from mulligan.core.page import Page, Selection
from mulligan.core.stats import Stats
from mulligan.stores import make_store
from mulligan.stores.contract import Store
from tests.chaos.durations import process_of

T = TypeVar("T")
SEEN = 500


def open_once(url: str) -> None:
    """Make the schema, so that nobody is hurt while it is half made."""
    asyncio.run(asked(url, stats))


def has_finished_some(url: str) -> bool:
    """Whether workers are up: a job has ended."""
    return bool(asyncio.run(asked(url, stats)).ended)


def unfinished(url: str) -> int:
    """How many jobs wait, gather or run; at least one while the store does not answer."""
    try:
        found = asyncio.run(asked(url, stats))
    except (StoreError, OSError):
        return 1
    waiting = sum(lane.ready + lane.delayed for lane in found.lanes)
    return waiting + sum(found.running.values()) + sum(found.gathering.values())


def busiest(url: str) -> list[int]:
    """The processes of workers that hold jobs, the one with most first."""
    try:
        running = asyncio.run(asked(url, processing)).jobs
    except (StoreError, OSError):
        return []
    held = Counter(process_of(job.worker) for job in running if job.worker)
    return [int(process) for process, _ in held.most_common()]


def has_refused(url: str) -> bool:
    """Whether a commit came too late and was refused, as far as workers have told."""
    try:
        counted = asyncio.run(asked(url, counts)).ever
    except (StoreError, OSError):
        return False
    return any(name == STALE and value for (_, _, name), value in counted.items())


async def asked(url: str, question: Callable[[Store], Awaitable[T]]) -> T:
    """What the store answers at this instant."""
    store = make_store(url)
    await store.open()
    try:
        return await question(store)
    finally:
        await store.close()


async def stats(store: Store) -> Stats:
    """How much of everything there is."""
    return await store.stats()


async def processing(store: Store) -> Page:
    """What runs."""
    return await store.page(Selection(status="processing"), SEEN)


async def counts(store: Store) -> Counts:
    """What was counted so far."""
    return await store.counts()
