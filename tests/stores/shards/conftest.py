"""Four shards of memory, and the store over them."""

from collections.abc import AsyncIterator

import pytest

from mulligan.stores.shards import ShardedStore
from tests.stores.shards.kit import Switched, spread


@pytest.fixture
def shards(clock) -> list[Switched]:
    """Four shards of memory."""
    return [Switched(clock) for _ in range(4)]


@pytest.fixture
async def store(shards, clock) -> AsyncIterator[ShardedStore]:
    """An open store over the four shards."""
    opened = spread(clock, *shards)
    await opened.open()
    yield opened
    await opened.close()
