"""The schema: its tables are made once, its functions and views anew whenever their source differs.

Editing a function needs no migration: the digest of the source of all of them is stored, and who
opens the store with another source makes them anew. The tables have a version; a database with
another one is refused.
"""

import logging
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from psycopg import sql
from psycopg.errors import (
    DuplicateSchema,
    DuplicateTable,
    InsufficientPrivilege,
    UniqueViolation,
)

from mulligan.core.errors import StoreError
from mulligan.stores.postgres.connection import Connection
from mulligan.stores.postgres.statements import COMPOSITE_TYPES

log = logging.getLogger("mulligan.store")

HERE = files("mulligan.stores.postgres")
VERSION = 1
# Another process has made it since we looked.
MADE_MEANWHILE = (UniqueViolation, DuplicateSchema, DuplicateTable)
OLDEST_SERVER = 130000
ENCODING = "UTF8"
# Stands in the files for the name of the schema, where there can be no search path.
SCHEMA = "@schema@"
# Bodies of functions are read when they are called, so files may come in any order, but for views
# and results, which are made of what is there.
FIRST = ("lanes.sql", "read.sql")

# What stands between quotes is read as it is written, whatever this database is set to.
SETTINGS = """
SET LOCAL standard_conforming_strings TO on;
SET LOCAL check_function_bodies TO off
"""
# Names are read before anything is dropped: what has gone with something else has none any more.
DROP_FUNCTIONS = """
DO $$
DECLARE
    here oid := (SELECT oid FROM pg_namespace WHERE nspname = current_schema());
    views text[] := ARRAY(SELECT oid::regclass::text FROM pg_class
                          WHERE relnamespace = here AND relkind = 'v');
    records text[] := ARRAY(SELECT oid::regclass::text FROM pg_class
                            WHERE relnamespace = here AND relkind = 'c');
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
    FOREACH old IN ARRAY records LOOP
        EXECUTE 'DROP TYPE IF EXISTS ' || old || ' CASCADE';
    END LOOP;
END
$$
"""


class Stored(NamedTuple):
    """The version of a schema, 0 if there is none, and the digest of its functions."""

    version: int
    functions: str | None = None


# Both are read once: while a process runs, a newer release may be installed over its files.
@cache
def functions() -> tuple[str, ...]:
    """The source of all types, functions and views, in the order in which they are made."""
    types = "\n".join(each.created for each in COMPOSITE_TYPES)
    found = {file.name: file for file in HERE.joinpath("sql").iterdir()}
    names = (*FIRST, *sorted(name for name in found if name not in FIRST))
    return (types, *(found[name].read_text("utf-8") for name in names if name.endswith(".sql")))


@cache
def known() -> Stored:
    """What this release makes."""
    return Stored(VERSION, sha256("\0".join(functions()).encode()).hexdigest()[:16])


def check_encoding(connection: Connection) -> None:
    """Refuse a database whose encoding cannot hold every text, or is not checked."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != ENCODING:
        raise StoreError(
            f"database {connection.info.dbname!r} is encoded in {encoding}, and mulligan needs"
            f" {ENCODING}; use another: CREATE DATABASE … ENCODING '{ENCODING}' TEMPLATE template0"
        )


async def migrate(connection: Connection, schema: str) -> None:
    """Make the schema, or its functions anew; a schema of another version is refused."""
    check_encoding(connection)
    if connection.info.server_version < OLDEST_SERVER:
        version = connection.info.server_version // 10000
        raise StoreError(f"PostgreSQL {version} is too old; mulligan needs 13 or later")
    stored = await stored_in(connection, schema)
    if stored == known():
        return
    try:
        with connection.unlimited():
            await bring_up_to_date(connection, schema)
    except MADE_MEANWHILE:
        if stored.version or not (await stored_in(connection, schema)).version:
            raise
        await migrate(connection, schema)
    except InsufficientPrivilege:
        if stored.version != VERSION:
            raise
        log.warning(
            "the functions of schema %s are of another build of mulligan, and this role may not"
            " make them anew; let their owner run: mulligan migrate",
            schema,
        )


async def check_version(connection: Connection, schema: str) -> None:
    """Refuse a schema that is not there or of another version: who only reads makes none."""
    check_encoding(connection)
    version = (await stored_in(connection, schema)).version
    if not version:
        remedy = "if mulligan should keep its jobs there, run: mulligan migrate"
        raise StoreError(f"schema {schema!r} is none; {remedy}")
    refuse_other(schema, version)


def refuse_other(schema: str, version: int) -> None:
    """Refuse a schema of another version than this release knows."""
    if version != VERSION:
        raise StoreError(
            f"schema {schema!r} has version {version}, made by another mulligan; this one knows"
            f" version {VERSION}: use the release that made it, or another ?schema="
        )


async def bring_up_to_date(connection: Connection, schema: str) -> None:
    """Make what is missing or differs, in one transaction, one process at a time.

    Of several that make a schema at once, all but one wait for that one and find it made.
    """
    async with connection.transaction():
        if await has_table(connection, schema, "schema_version"):
            version = sql.Identifier(schema, "schema_version")
            await connection.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(version))
        stored = await stored_in(connection, schema)
        if stored.version:
            refuse_other(schema, stored.version)
        if stored == known():
            return
        name = sql.Identifier(schema)
        if not stored.version:
            await refuse_others_tables(connection, schema)
        if not await exists(connection, schema):
            await connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        await connection.execute(
            sql.SQL("SET LOCAL search_path TO {}, pg_catalog, pg_temp").format(name)
        )
        await connection.execute(SETTINGS, prepare=False)
        texts = functions()
        if stored.version:
            await connection.execute(DROP_FUNCTIONS)
        else:
            texts = (HERE.joinpath("schema/tables.sql").read_text("utf-8"), *texts)
        for text in texts:
            here = text.replace(SCHEMA, name.as_string(connection))
            await connection.execute(here.encode(), prepare=False)
        await connection.execute(
            "INSERT INTO schema_version (version, functions) VALUES (%s, %s)"
            " ON CONFLICT (only_row) DO UPDATE SET functions = excluded.functions",
            known(),
        )


async def refuse_others_tables(connection: Connection, schema: str) -> None:
    """Refuse a schema without a version that has a table of jobs: somebody else made it."""
    if await has_table(connection, schema, "job"):
        raise StoreError(
            f"schema {schema!r} has a table job and no version of mulligan's: it belongs to another"
            " program, or to a mulligan before its first release; use another ?schema="
        )


async def exists(connection: Connection, schema: str) -> bool:
    """Whether the schema is there."""
    cursor = await connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,))
    return await cursor.fetchone() is not None


async def stored_in(connection: Connection, schema: str) -> Stored:
    """What the database has."""
    if not await has_table(connection, schema, "schema_version"):
        return Stored(0)
    cursor = await connection.execute(
        sql.SQL("SELECT version, functions FROM {}").format(
            sql.Identifier(schema, "schema_version")
        )
    )
    row = await cursor.fetchone()
    return Stored(*row) if row else Stored(0)


async def has_table(connection: Connection, schema: str, table: str) -> bool:
    """Whether the schema has the table."""
    # asked of the catalogue itself: to_regclass may still answer from before the lock was ours
    cursor = await connection.execute(
        "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s",
        (schema, table),
    )
    return await cursor.fetchone() is not None
