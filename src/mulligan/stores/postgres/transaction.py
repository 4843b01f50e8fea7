"""Enqueue inside a transaction of the caller's own, whichever library it is held by."""

from collections.abc import Sequence
from inspect import isawaitable
from itertools import count
from typing import Any

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

CALL = "enqueue_in"


def enqueue_in(database: Database, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Enqueue through a psycopg Connection or a SQLAlchemy Connection or Session."""
    check_batch(len(jobs))
    if not jobs:
        return []
    values = database.values(CALL, {"jobs": job_columns(jobs)})
    if isinstance(connection, psycopg.Connection):
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(database.statements[CALL].encode(), values).fetchone()
        return enqueued(jobs, row[0] if row else None)
    if not hasattr(connection, "execute") or _is_async(connection):
        raise InvalidError(
            f"enqueue_in cannot use {type(connection).__name__}; give a psycopg or SQLAlchemy"
            " connection, or await aenqueue_in with an asynchronous one"
        )
    result = connection.execute(*_sqlalchemy_statement(database.url.schema, values))
    return enqueued(jobs, result.scalar_one())


async def aenqueue_in(
    database: Database, connection: Any, jobs: Sequence[NewJob]
) -> list[Enqueued]:
    """Enqueue through a psycopg AsyncConnection or a SQLAlchemy AsyncConnection or AsyncSession."""
    check_batch(len(jobs))
    if not jobs:
        return []
    values = database.values(CALL, {"jobs": job_columns(jobs)})
    if isinstance(connection, psycopg.AsyncConnection):
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(database.statements[CALL].encode(), values)
            row = await cursor.fetchone()
        return enqueued(jobs, row[0] if row else None)
    if not _is_async(connection):
        raise InvalidError(
            f"aenqueue_in cannot use {type(connection).__name__}; give an asynchronous psycopg or"
            " SQLAlchemy connection, or call enqueue_in with a synchronous one"
        )
    result = connection.execute(*_sqlalchemy_statement(database.url.schema, values))
    if isawaitable(result):
        result = await result
    return enqueued(jobs, result.scalar_one())


def _is_async(connection: Any) -> bool:
    return isinstance(connection, psycopg.AsyncConnection) or hasattr(connection, "run_sync")


def _sqlalchemy_statement(schema: str, values: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    """The call with parameters that SQLAlchemy names; all other colons are escaped."""
    from sqlalchemy import text  # noqa: PLC0415 - whoever comes with its connection has it

    numbers = count()
    name = sql.Identifier(schema).as_string()
    # \0 stands for the colon of a parameter: no identifier holds one
    call = arguments(name, CALL, lambda kind: f"CAST(\0p{next(numbers)} AS {kind})")
    statement = f"SELECT * FROM {name}.{CALL}({call})"  # noqa: S608 - the schema is quoted
    escaped = statement.replace(":", "\\:").replace("\0", ":")
    return text(escaped), {f"p{number}": value for number, value in enumerate(values)}
