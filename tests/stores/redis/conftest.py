"""What the tests of the Redis store share."""

from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from mulligan.stores.redis import RedisStore
from tests.databases import RedisServer
from tests.store_kit import fresh_url
from tests.stores.redis.kit import opened


@pytest.fixture
async def url(tmp_path) -> AsyncIterator[str]:
    async with fresh_url("redis", tmp_path) as fresh:
        yield fresh


@pytest.fixture
async def store(url) -> AsyncIterator[RedisStore]:
    async with opened(url) as fresh:
        yield fresh


@pytest.fixture
async def client(store) -> AsyncIterator[Redis]:
    """A plain connection to the server, as another program has it."""
    async with Redis.from_url(store._server.url.driver, decode_responses=True) as plain:
        yield plain


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that the test may kill or starve."""
    with RedisServer() as server:
        yield server
