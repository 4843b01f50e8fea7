"""The schema: numbered files, applied once each, by one process at a time."""

import logging
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from mulligan.core.errors import StoreError
from mulligan.stores.postgres._answering import Connection

log = logging.getLogger("mulligan.store")

HERE = files("mulligan.stores.postgres")
LOCK = 0x6D756C6C  # "mull": who holds it migrates
OLDEST_SERVER = 130000
ENCODING = "UTF8"
# Stands in the files for the name of the schema, where there can be no search path.
SCHEMA = "@schema@"

# Names are read before anything is dropped: what has gone with something else has none any more.
DROP_FUNCTIONS = """
DO $$
DECLARE
    here oid := (SELECT oid FROM pg_namespace WHERE nspname = current_schema());
    views text[] := ARRAY(SELECT oid::regclass::text FROM pg_class
                          WHERE relnamespace = here AND relkind = 'v');
    functions text[] := ARRAY(SELECT oid::regprocedure::text FROM pg_proc
                              WHERE pronamespace = here);
    old text;
BEGIN
    FOREACH old IN ARRAY functions LOOP
        EXECUTE 'DROP ROUTINE IF EXISTS ' || old || ' CASCADE';
    END LOOP;
    FOREACH old IN ARRAY views LOOP
        EXECUTE 'DROP VIEW IF EXISTS ' || old || ' CASCADE';
    END LOOP;
END
$$
"""


def tables() -> list[Traversable]:
    """The numbered migrations of the tables, in order."""
    return _sorted("schema")


def functions() -> list[Traversable]:
    """The files of functions and views, in the order in which they depend on each other."""
    return _sorted("sql")


class Stored(NamedTuple):
    """The version of a schema, 0 if there is none, and the digest of its functions."""

    version: int
    functions: str | None = None


# Both are read once: while a process runs, a newer release may be installed over its files.
@cache
def newest() -> int:
    """The version of the schema that this release knows."""
    return len(tables())


@cache
def known() -> Stored:
    """What this release makes."""
    texts = b"\0".join(file.read_bytes() for file in functions())
    return Stored(newest(), sha256(texts).hexdigest()[:16])


def check_encoding(connection: Connection) -> None:
    """Refuse a database that cannot hold every text, or takes bytes that are none."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != ENCODING:
        raise StoreError(
            f"database {connection.info.dbname!r} is encoded in {encoding}, and mulligan needs"
            f" {ENCODING}; use another: CREATE DATABASE … ENCODING '{ENCODING}' TEMPLATE template0"
        )


async def migrate(connection: Connection, schema: str) -> None:
    """Bring the schema up to date; a schema of a newer release is refused.

    Functions and views are made anew with every migration, so that they always fit the tables, and
    where another build of the same version made them.
    """
    check_encoding(connection)
    if connection.info.server_version < OLDEST_SERVER:
        version = connection.info.server_version // 10000
        raise StoreError(f"PostgreSQL {version} is too old; mulligan needs 13 or later")
    stored = await stored_in(connection, schema)
    if stored == known():
        return
    try:
        with connection.patient():
            await bring_up_to_date(connection, schema)
    except InsufficientPrivilege:
        if stored.version != newest():
            raise
        log.warning(
            "the functions of schema %s are of another build of mulligan, and this role may not"
            " make them anew; let their owner run: mulligan migrate",
            schema,
        )


async def check_version(connection: Connection, schema: str) -> None:
    """Refuse a schema that is not up to date: to bring it there is for who may write."""
    check_encoding(connection)
    version = (await stored_in(connection, schema)).version
    if version > newest():
        raise newer(schema, version)
    if version < newest():
        what = f"has version {version}, and this release reads {newest()}" if version else "is none"
        remedy = "if mulligan should keep its jobs there, run: mulligan migrate"
        raise StoreError(f"schema {schema!r} {what}; {remedy}")


def newer(schema: str, version: int) -> StoreError:
    """What is said of a schema of a newer release."""
    return StoreError(
        f"schema {schema!r} has version {version}, made by a newer mulligan; this one knows"
        f" versions up to {newest()}: upgrade it, or use another ?schema="
    )


async def bring_up_to_date(connection: Connection, schema: str) -> None:
    """Apply what is missing, in one transaction."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LOCK,))
        stored = await stored_in(connection, schema)
        version = stored.version
        if version > newest():
            raise newer(schema, version)
        if stored == known():
            return
        name = sql.Identifier(schema)
        if not await exists(connection, schema):
            await connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        await connection.execute(
            sql.SQL("SET LOCAL search_path TO {}, pg_catalog, pg_temp").format(name)
        )
        # what stands between quotes is read as it is written, whatever this database is set to
        await connection.execute("SET LOCAL standard_conforming_strings TO on")
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS migration (version integer PRIMARY KEY,"
            " applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
        )
        await connection.execute(DROP_FUNCTIONS)
        for file in (*tables()[version:], *functions()):
            text = file.read_text("utf-8").replace(SCHEMA, name.as_string(connection))
            await connection.execute(text.encode(), prepare=False)
        for number in range(version + 1, newest() + 1):
            await connection.execute("INSERT INTO migration (version) VALUES (%s)", (number,))
        await connection.execute(
            "UPDATE migration SET functions = %s WHERE version = %s", known()[::-1]
        )


async def exists(connection: Connection, schema: str) -> bool:
    """Whether the schema is there."""
    cursor = await connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,))
    return await cursor.fetchone() is not None


async def stored_in(connection: Connection, schema: str) -> Stored:
    """What the database has."""
    # asked of the catalogue itself: to_regclass may still answer from before the lock was ours
    cursor = await connection.execute(
        "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = 'migration'",
        (schema,),
    )
    if await cursor.fetchone() is None:
        return Stored(0)
    # asked as a whole row, as earlier versions have no column for the digest
    cursor = await connection.execute(
        sql.SQL(
            "SELECT version, to_jsonb(m)->>'functions' FROM {} m ORDER BY version DESC LIMIT 1"
        ).format(sql.Identifier(schema, "migration"))
    )
    row = await cursor.fetchone()
    return Stored(*row) if row else Stored(0)


def _sorted(folder: str) -> list[Traversable]:
    found = [file for file in HERE.joinpath(folder).iterdir() if file.name.endswith(".sql")]
    return sorted(found, key=lambda file: file.name)
