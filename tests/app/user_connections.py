"""Connections of a user's own program, of every library that is supported."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext import asyncio as sqlalchemy_async
from sqlalchemy.orm import Session


def server_of(url: str) -> str:
    """The URL without what only mulligan understands."""
    return urlsplit(url)._replace(query="").geturl()


def engine_url(url: str, driver: str) -> str:
    """As SQLAlchemy wants it."""
    if url.startswith("sqlite:"):
        return url
    return server_of(url).replace("postgresql://", f"postgresql+{driver}://")


@contextmanager
def by_psycopg(url: str) -> Iterator[Any]:
    with psycopg.connect(server_of(url), row_factory=dict_row) as connection:
        yield connection


@contextmanager
def by_sqlite3(url: str) -> Iterator[Any]:
    import sqlite3  # noqa: PLC0415

    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.row_factory = sqlite3.Row
    connection.text_factory = bytes
    yield connection
    connection.close()


@contextmanager
def by_sqlalchemy(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(engine_url(url, "psycopg"), poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        yield connection


@contextmanager
def by_session(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(engine_url(url, "psycopg"), poolclass=sqlalchemy.NullPool)
    with Session(engine) as session:
        yield session


@contextmanager
def by_django(url: str) -> Iterator[Any]:
    """Django's connection in manual mode, so that it can be committed like the others."""
    with django_connection(url) as connection:
        connection.set_autocommit(False)
        yield connection
        connection.rollback()
        connection.set_autocommit(True)


@contextmanager
def django_connection(url: str, alias: str = "mine") -> Iterator[Any]:
    """A connection of Django's, known to it by this alias."""
    from tests.django.project import connection_to  # noqa: PLC0415 - few tests need Django

    with connection_to(url if url.startswith("sqlite:") else server_of(url), alias) as connection:
        yield connection


PLAIN: dict[str, tuple[Callable[[str], Any], ...]] = {
    "postgres": (by_psycopg, by_sqlalchemy, by_session, by_django),
    "sqlite": (by_sqlite3, by_sqlalchemy, by_session, by_django),
}


@asynccontextmanager
async def by_async_psycopg(url: str) -> AsyncIterator[Any]:
    connection = await psycopg.AsyncConnection.connect(server_of(url), row_factory=dict_row)
    async with connection:
        yield connection


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Any]:
    """A connection of asyncpg's pool, with the methods by which the others end a transaction."""
    import asyncpg  # noqa: PLC0415

    async with (
        asyncpg.create_pool(server_of(url), min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
    ):
        yield connection


@asynccontextmanager
async def by_async_sqlalchemy(url: str) -> AsyncIterator[Any]:
    async with async_engine(url, "psycopg") as engine, engine.connect() as connection:
        yield connection


@asynccontextmanager
async def by_async_session(url: str) -> AsyncIterator[Any]:
    async with (
        async_engine(url, "asyncpg") as engine,
        sqlalchemy_async.AsyncSession(engine) as session,
    ):
        yield session


@asynccontextmanager
async def async_engine(url: str, driver: str) -> AsyncIterator[Any]:
    engine = sqlalchemy_async.create_async_engine(
        engine_url(url, driver), poolclass=sqlalchemy.NullPool
    )
    try:
        yield engine
    finally:
        await engine.dispose()


ASYNC = (by_async_psycopg, by_asyncpg, by_async_sqlalchemy, by_async_session)


@asynccontextmanager
async def transaction(connection: Any, *, commit: bool) -> AsyncIterator[None]:
    """A transaction on any of the asynchronous ones, committed or rolled back."""
    if hasattr(connection, "fetchval"):  # asyncpg
        begun = connection.transaction()
        await begun.start()
        yield
        await (begun.commit() if commit else begun.rollback())
        return
    yield
    await (connection.commit() if commit else connection.rollback())
