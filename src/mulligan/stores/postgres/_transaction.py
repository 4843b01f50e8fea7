"""Enqueue inside a transaction of the caller's own, whichever library it is held by."""

from collections.abc import Sequence
from inspect import isawaitable
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from mulligan.core.errors import InvalidError
from mulligan.core.job import Enqueued, NewJob, all_created
from mulligan.core.settings import check_batch
from mulligan.stores.postgres._encode import job_columns
from mulligan.stores.postgres._statements import CALLS, Statements

KINDS = CALLS["accept_within"]


def enqueued(jobs: Sequence[NewJob], before: Sequence[str | None] | None) -> list[Enqueued]:
    """What became of the jobs, from the ids that were there before them."""
    if before is None:
        return all_created([job.id for job in jobs])
    return [
        Enqueued(job.id, created=True) if first is None else Enqueued(first, created=False)
        for job, first in zip(jobs, before, strict=True)
    ]


def enqueue_in(
    connection: Any, schema: str, now: int | None, jobs: Sequence[NewJob]
) -> list[Enqueued]:
    """Enqueue through a psycopg Connection or a SQLAlchemy Connection or Session."""
    check_batch(len(jobs))
    if not jobs:
        return []
    values = (now, *job_columns(jobs))
    if isinstance(connection, psycopg.Connection):
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(_driver_statement(schema), values).fetchone()
        return enqueued(jobs, row[0] if row else None)
    if not hasattr(connection, "execute") or _is_async(connection):
        raise InvalidError(
            f"enqueue_in cannot use {type(connection).__name__}; give a psycopg or SQLAlchemy"
            " connection, or await aenqueue_in with an asynchronous one"
        )
    result = connection.execute(*_sqlalchemy_statement(schema, values))
    return enqueued(jobs, result.scalar_one())


async def aenqueue_in(
    connection: Any, schema: str, now: int | None, jobs: Sequence[NewJob]
) -> list[Enqueued]:
    """Enqueue through a psycopg AsyncConnection or a SQLAlchemy AsyncConnection or AsyncSession."""
    check_batch(len(jobs))
    if not jobs:
        return []
    values = (now, *job_columns(jobs))
    if isinstance(connection, psycopg.AsyncConnection):
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_driver_statement(schema), values)
            row = await cursor.fetchone()
        return enqueued(jobs, row[0] if row else None)
    if not _is_async(connection):
        raise InvalidError(
            f"aenqueue_in cannot use {type(connection).__name__}; give an asynchronous psycopg or"
            " SQLAlchemy connection, or call enqueue_in with a synchronous one"
        )
    result = connection.execute(*_sqlalchemy_statement(schema, values))
    if isawaitable(result):
        result = await result
    return enqueued(jobs, result.scalar_one())


def _is_async(connection: Any) -> bool:
    return isinstance(connection, psycopg.AsyncConnection) or hasattr(connection, "run_sync")


def _driver_statement(schema: str) -> bytes:
    return Statements(schema)["accept_within"].encode()


def _sqlalchemy_statement(schema: str, values: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    from sqlalchemy import text  # noqa: PLC0415 - whoever comes with its connection has it

    statement = Statements(schema)["accept_within"].replace("%%", "%").replace(":", "\\:")
    for place, kind in enumerate(KINDS):
        statement = statement.replace(f"%s\\:\\:{kind}", f"CAST(:p{place} AS {kind})", 1)
    return text(statement), {f"p{place}": value for place, value in enumerate(values)}
