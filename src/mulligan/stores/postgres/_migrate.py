"""The schema: numbered files, applied once each, by one process at a time."""

from importlib.resources import files
from importlib.resources.abc import Traversable

from psycopg import sql

from mulligan.core.errors import StoreError
from mulligan.stores.postgres._answering import Connection

HERE = files("mulligan.stores.postgres")
LOCK = 0x6D756C6C  # "mull": who holds it migrates
OLDEST_SERVER = 130000
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


def newest() -> int:
    """The version of the schema that this release knows."""
    return len(tables())


async def migrate(connection: Connection, schema: str) -> None:
    """Bring the schema up to date; a schema of a newer release is refused.

    Functions and views are made anew with every migration, so that they always fit the tables.
    """
    if connection.info.server_version < OLDEST_SERVER:
        version = connection.info.server_version // 10000
        raise StoreError(f"PostgreSQL {version} is too old; mulligan needs 13 or later")
    if await version_of(connection, schema) == newest():
        return
    with connection.patient():
        await bring_up_to_date(connection, schema)


async def bring_up_to_date(connection: Connection, schema: str) -> None:
    """Apply what is missing, in one transaction."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LOCK,))
        version = await version_of(connection, schema)
        if version > newest():
            raise StoreError(
                f"schema {schema!r} has version {version}, made by a newer mulligan; this one knows"
                f" versions up to {newest()}: upgrade it, or use another ?schema="
            )
        if version == newest():
            return
        name = sql.Identifier(schema)
        if not await exists(connection, schema):
            await connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        await connection.execute(
            sql.SQL("SET LOCAL search_path TO {}, pg_catalog, pg_temp").format(name)
        )
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


async def exists(connection: Connection, schema: str) -> bool:
    """Whether the schema is there."""
    cursor = await connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,))
    return await cursor.fetchone() is not None


async def version_of(connection: Connection, schema: str) -> int:
    """The version of the stored schema, 0 if there is none."""
    # asked of the catalogue itself: to_regclass may still answer from before the lock was ours
    cursor = await connection.execute(
        "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = 'migration'",
        (schema,),
    )
    if await cursor.fetchone() is None:
        return 0
    table = sql.Identifier(schema, "migration")
    cursor = await connection.execute(
        sql.SQL("SELECT coalesce(max(version), 0) FROM {}").format(table)
    )
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


def _sorted(folder: str) -> list[Traversable]:
    found = [file for file in HERE.joinpath(folder).iterdir() if file.name.endswith(".sql")]
    return sorted(found, key=lambda file: file.name)
