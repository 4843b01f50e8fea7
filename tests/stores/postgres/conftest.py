"""Stores and servers for tests of the PostgreSQL store alone."""

from collections.abc import AsyncIterator, Iterator

import pytest

from mulligan.stores.postgres import PostgresStore, database, pool
from tests.databases import PostgresServer
from tests.reuse import reused_url
from tests.store_kit import fresh_url, require
from tests.stores.postgres.kit import opened


@pytest.fixture
async def url(request, tmp_path) -> AsyncIterator[str]:
    """The URL of an empty store; new if the test opens it itself."""
    require("postgres")
    reuse = "store" in request.fixturenames
    async with reused_url("postgres") if reuse else fresh_url("postgres", tmp_path) as empty:
        yield empty


@pytest.fixture
async def store(url) -> AsyncIterator[PostgresStore]:
    async with opened(url) as fresh:
        yield fresh


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    require("postgres")
    with PostgresServer() as server:
        yield server


@pytest.fixture
def no_second_try(monkeypatch):
    """A deadlock is not tried again but raised."""
    monkeypatch.setattr(pool, "PASSING", frozenset())


@pytest.fixture
def seen_as_pooler(monkeypatch) -> None:
    """Stores take every server for a pooler."""

    async def same(_: object) -> int:
        return 0

    monkeypatch.setattr(database, "process_of", same)
