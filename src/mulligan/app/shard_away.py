"""Reads that do without what a shard keeps that is away: alerts say which one is."""

from collections.abc import Awaitable
from typing import TypeVar

from mulligan.core.errors import ShardAwayError

T = TypeVar("T")


async def unless_away(reading: Awaitable[T], nothing: T) -> T:
    """What is read, or nothing of it where the shard that keeps it is away."""
    try:
        return await reading
    except ShardAwayError:
        return nothing
