"""Enqueue inside a transaction of the user's own, whichever library it is held by.

One statement is sent on the user's connection, and nothing of the connection is changed: the job is
part of whatever transaction it is in. Errors of the user's driver are raised as they are.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakSet

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from mulligan.core.errors import InvalidError
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.settings import check_batch
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.enqueue import enqueued
from mulligan.stores.postgres.fields import job_columns
from mulligan.stores.postgres.statements import arguments
from mulligan.stores.user_connection import (
    connection_of,
    is_sqlalchemy,
    library_of,
    refuse_awaited,
    refuse_engine,
    refuse_plain,
    unknown_kind,
)

CALL = "enqueue_in"
KINDS = (
    "a connection of psycopg 3 or Django, or a connection or session of SQLAlchemy; to aenqueue"
    " also one of asyncpg"
)
# What tells a database from all others, also from a copy of it on another server.
IDENTITY = (
    "SELECT quote_ident(d.datname) || ' (oid ' || d.oid || ', server started at '"
    " || extract(epoch FROM pg_postmaster_start_time()) || ')'"
    " FROM pg_database d WHERE d.datname = current_database()"
)
Values = Sequence[str | None]


class Address(NamedTuple):
    """Where connections lead, as their library says it."""

    host: str
    port: int | str
    database: str


class Style(NamedTuple):
    """How a library writes a parameter, and what else must be escaped in its statements."""

    mark: Callable[[int], str]
    special: str = ""
    escaped: str = ""


FORMAT = Style(lambda _: "%s", "%", "%%")
NAMED = Style(lambda number: f":p{number}", ":", "\\:")
NUMBERED = Style(lambda number: f"${number + 1}")


class UserTransactions:
    """Enqueues on connections of the user's; each database that they lead to is looked at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # What leads to the database of the store: addresses, and objects that make connections.
        self._addresses: set[Address] = set()
        self._makers: WeakSet[Any] = WeakSet()

    def enqueue(
        self, connection: Any, jobs: Sequence[NewJob], identity: Callable[[], str] | None
    ) -> list[Enqueued]:
        """Enqueue through a connection of psycopg, Django or SQLAlchemy."""
        check_batch(len(jobs))
        if not jobs:
            return []
        refuse_awaited(connection)
        match library_of(connection):
            case "psycopg" if isinstance(connection, psycopg.Connection):
                ask, style = on_psycopg(connection), FORMAT
            case "django" if hasattr(connection, "vendor"):
                refuse_engine(connection, "postgresql", connection.vendor)
                ask, style = on_django(connection), FORMAT
            case "sqlalchemy" if is_sqlalchemy(connection):
                connection = connection_of(connection)
                refuse_engine(connection, "postgresql", connection.dialect.name)
                ask, style = on_sqlalchemy(connection), NAMED
            case _:
                raise unknown_kind(connection, KINDS)
        if identity is not None and not self._is_known(connection):
            self._compare(connection, ask(IDENTITY, ()), identity())
        return enqueued(jobs, ask(self._statement(style), self._values(jobs)))

    async def aenqueue(
        self, connection: Any, jobs: Sequence[NewJob], identity: Callable[[], Awaitable[str]] | None
    ) -> list[Enqueued]:
        """Enqueue through an asynchronous connection of psycopg, asyncpg or SQLAlchemy."""
        check_batch(len(jobs))
        if not jobs:
            return []
        refuse_plain(connection)
        match library_of(connection):
            case "psycopg" if isinstance(connection, psycopg.AsyncConnection):
                ask, style = on_async_psycopg(connection), FORMAT
            case "asyncpg" if hasattr(connection, "is_in_transaction"):  # a pool has no such thing
                ask, style = on_asyncpg(connection), NUMBERED
            case "sqlalchemy" if hasattr(connection, "run_sync"):
                return await self._aenqueue_sqlalchemy(connection, jobs, identity)
            case _:
                raise unknown_kind(connection, KINDS)
        if identity is not None and not self._is_known(connection):
            self._compare(connection, await ask(IDENTITY, ()), await identity())
        return enqueued(jobs, await ask(self._statement(style), self._values(jobs)))

    async def _aenqueue_sqlalchemy(
        self, outer: Any, jobs: Sequence[NewJob], identity: Callable[[], Awaitable[str]] | None
    ) -> list[Enqueued]:
        """SQLAlchemy's asynchronous objects run plain code on the plain ones that they wrap."""
        connection = await outer.run_sync(connection_of)
        expected: str | None = None
        if identity is not None and not self._is_known(connection):
            expected = await identity()
        check = None if expected is None else lambda: str(expected)
        answers: list[Enqueued] = await outer.run_sync(
            lambda _: self.enqueue(connection, jobs, check)
        )
        return answers

    def _statement(self, style: Style) -> str:
        return statement(self._database.url.schema, style)

    def _values(self, jobs: Sequence[NewJob]) -> Values:
        values = self._database.values(CALL, {"jobs": job_columns(jobs)})
        return [None if value is None else str(value) for value in values]

    def _is_known(self, connection: Any) -> bool:
        way = way_of(connection)
        return way in (self._addresses if isinstance(way, Address) else self._makers)

    def _compare(self, connection: Any, found: Any, expected: str) -> None:
        """Refuse a connection to another database than the store's, and remember one to it."""
        if found != expected:
            raise InvalidError(
                f"connection {type(connection).__name__} is to database {found}, and the jobs of"
                f" this app are in database {expected}, at {self._database.url.shown}; give a"
                " connection to that one, or enqueue without connection="
            )
        way = way_of(connection)
        if isinstance(way, Address):
            self._addresses.add(way)
        else:
            self._makers.add(way)


@cache
def statement(schema: str, style: Style) -> str:
    """The call, every value of which is sent as text: all libraries agree on that."""
    numbers = count()
    name = sql.Identifier(schema).as_string()
    # \0 stands for a parameter: no identifier holds one
    call = arguments(name, CALL, lambda kind: f"CAST(CAST(\0 AS text) AS {kind})")
    whole = f"SELECT * FROM {name}.{CALL}({call})"  # noqa: S608 - the schema is quoted
    if style.special:
        whole = whole.replace(style.special, style.escaped)
    first, *rest = whole.split("\0")
    return first + "".join(style.mark(next(numbers)) + part for part in rest)


def on_psycopg(connection: "psycopg.Connection[Any]") -> Callable[[str, Values], Any]:
    """Asks for one value; rows are tuples, whatever the connection makes of them."""

    def ask(text: str, values: Values) -> Any:
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(text.encode(), values or None).fetchone()
        return row[0] if row else None

    return ask


def on_async_psycopg(
    connection: "psycopg.AsyncConnection[Any]",
) -> Callable[[str, Values], Awaitable[Any]]:
    """As `on_psycopg`."""

    async def ask(text: str, values: Values) -> Any:
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(text.encode(), values or None)
            row = await cursor.fetchone()
        return row[0] if row else None

    return ask


def on_asyncpg(connection: Any) -> Callable[[str, Values], Awaitable[Any]]:
    """Asks for one value, on a connection or what a pool lends."""
    return lambda text, values: connection.fetchval(text, *values)


def on_django(connection: Any) -> Callable[[str, Values], Any]:
    """Asks for one value."""

    def ask(text: str, values: Values) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchone()[0]

    return ask


def on_sqlalchemy(connection: Any) -> Callable[[str, Values], Any]:
    """Asks for one value."""
    from sqlalchemy import text as sqlalchemy_text  # noqa: PLC0415 - who has its connection has it

    def ask(text: str, values: Values) -> Any:
        named = {f"p{number}": value for number, value in enumerate(values)}
        return connection.execute(sqlalchemy_text(text), named).scalar_one()

    return ask


def way_of(connection: Any) -> Any:
    """What is the same for all connections to one database, as far as the library has such a thing.

    Of psycopg and Django the address, of SQLAlchemy the engine, of asyncpg the connection itself.
    """
    match library_of(connection):
        case "psycopg":
            return Address(connection.info.host, connection.info.port, connection.info.dbname)
        case "django":
            told = connection.settings_dict
            return Address(told["HOST"], told["PORT"], told["NAME"])
        case "sqlalchemy":
            return connection.engine
        case _:
            return getattr(connection, "_con", connection)  # a pool lends a proxy
