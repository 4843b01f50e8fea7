"""Stores that one test after the other may have: emptied between two, as making one takes longer.

A place is emptied to what it held when it was made, and only while its tables, functions and
indexes are those that it was made with; otherwise it is dropped.
"""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from mulligan.stores import make_store
from tests.databases import url_variable
from tests.store_kit import VirtualClock, drop_database, drop_schema, with_query


class Place(Protocol):
    """Somewhere on a server that a store can be, apart from all others."""

    url: str

    def empty(self) -> bool:
        """Put back what it held at first; False if its layout is no longer the same."""
        ...

    def drop(self) -> None:
        """Remove it."""
        ...


# The collections of MongoDB that a store makes indexes in.
INDEXED = ("tasks", "tasks_lines", "tasks_arrivals", "tasks_counts")
# The others are made as quickly as emptied.
REUSED = ("postgres", "mongo")
_free: dict[str, list[Place]] = {name: [] for name in REUSED}


@asynccontextmanager
async def reused_url(name: str) -> AsyncIterator[str]:
    """The URL of an empty store of this engine, which other tests may have had before."""
    place = _free[name].pop() if _free[name] else await _made(name)
    yield place.url
    if place.empty():
        _free[name].append(place)
    else:
        place.drop()


def drop_all() -> None:
    """Remove every place that this process still has."""
    for places in _free.values():
        while places:
            places.pop().drop()


async def _made(name: str) -> Place:
    mark = f"t_{secrets.token_hex(6)}"
    server = os.environ[url_variable(name)]
    kind = Schema if name == "postgres" else Database
    store = make_store(kind.address(server, mark), clock=VirtualClock())
    await store.open()
    await store.close()
    return kind(server, mark)


class Table(NamedTuple):
    """A table, and what it held at first."""

    name: Any
    rows: list[tuple[Any, ...]]


class Schema:
    """A schema of PostgreSQL."""

    def __init__(self, server: str, name: str) -> None:
        from psycopg import Connection, sql  # noqa: PLC0415 - where its server is

        self.server, self.name, self.url = server, name, self.address(server, name)
        self._sql = sql
        self._connection = Connection.connect(server, autocommit=True)
        self._layout = self._look()
        kept = self._ask("SELECT tablename FROM pg_tables WHERE schemaname = %s", name)
        names = [sql.Identifier(name, table) for (table,) in kept]
        self._tables = [
            Table(each, self._ask(sql.SQL("SELECT row_to_json(r)::text FROM {} r").format(each)))
            for each in names
        ]
        found = self._ask("SELECT sequencename FROM pg_sequences WHERE schemaname = %s", name)
        self._sequences = [sql.Identifier(name, sequence) for (sequence,) in found]

    @staticmethod
    def address(server: str, name: str) -> str:
        """The URL of a store in the schema."""
        return with_query(server, schema=name)

    def empty(self) -> bool:
        """Put back the first rows, and let sequences begin anew."""
        if self._look() != self._layout:
            return False
        sql = self._sql
        with self._connection.transaction():
            for table in self._tables:
                self._connection.execute(sql.SQL("DELETE FROM {}").format(table.name))
                insert = sql.SQL(
                    "INSERT INTO {0} SELECT * FROM json_populate_record(NULL::{0}, %s)"
                )
                for row in table.rows:
                    self._connection.execute(insert.format(table.name), row)
            for sequence in self._sequences:
                self._connection.execute(sql.SQL("ALTER SEQUENCE {} RESTART").format(sequence))
        return True

    def drop(self) -> None:
        """Drop the schema."""
        self._connection.close()
        drop_schema(self.server, self.name)

    def _look(self) -> list[tuple[Any, ...]]:
        return self._ask(
            "SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace(%s) UNION ALL"
            " SELECT oid FROM pg_proc WHERE pronamespace = to_regnamespace(%s) ORDER BY 1",
            self.name,
            self.name,
        )

    def _ask(self, query: Any, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()


class Database:
    """A database of MongoDB."""

    def __init__(self, server: str, name: str) -> None:
        import pymongo  # noqa: PLC0415 - where its server is

        self.server, self.name, self.url = server, name, self.address(server, name)
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(server)
        database = self._client[name]
        self._documents = {
            each: list(database[each].find()) for each in database.list_collection_names()
        }
        self._layout = self._look()

    @staticmethod
    def address(server: str, name: str) -> str:
        """The URL of a store in the database."""
        return urlsplit(server)._replace(path=f"/{name}").geturl()

    def empty(self) -> bool:
        """Put back the first documents; collections that were added stay, for the next to fill."""
        database = self._client[self.name]
        if self._look() != self._layout:
            return False
        for added in set(database.list_collection_names()) - set(self._documents):
            self._documents[added] = []
        for name, documents in self._documents.items():
            database[name].delete_many({})
            if documents:
                database[name].insert_many(documents)
        return True

    def drop(self) -> None:
        """Drop the database."""
        self._client.close()
        drop_database(self.server, self.name)

    def _look(self) -> dict[str, Any]:
        database = self._client[self.name]
        return {name: database[name].index_information() for name in INDEXED}
