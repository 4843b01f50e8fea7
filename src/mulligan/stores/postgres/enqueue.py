"""Accepting jobs: one batch as an operation, many so that the server stores while we encode."""

from collections.abc import Sequence
from typing import Any

from mulligan.core.job import Enqueued, NewJob, all_created
from mulligan.stores.batches import Batch, one_ahead
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.fields import one_job, packed_columns
from mulligan.stores.postgres.one_job import Values, accept_one


async def enqueue(database: Database, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Accept every job or none."""
    values = None if database.pool.pooled else values_of_one(database, jobs)
    if values is not None:
        statement, job = database.statements.accept_one, jobs[0]
        return await database.pool.attempt(
            lambda connection: connection.wait(accept_one(connection, statement, job, values))
        )
    name = accepting(database, waits=True)
    [[before, *_]] = await database.call(name, jobs=packed_columns(jobs))
    return enqueued(jobs, before)


def accepting(database: Database, *, waits: bool) -> str:
    """Return the name of the call that accepts a batch.

    Behind a pooler every batch waits for the disk, since the pooler keeps the client's connection
    when it loses the server's. `accept` commits, and is not possible in the transaction used there.
    """
    if database.pool.pooled:
        return "receive"
    return "accept" if waits else "accept_soon"


def values_of_one(database: Database, jobs: Sequence[NewJob]) -> Values | None:
    """The values of `accept_one`, if that can accept them: a single job, without options."""
    if len(jobs) != 1 or (values := one_job(jobs[0])) is None:
        return None
    now = database.now()
    return [None if now is None else b"%d" % now, *values]


async def enqueue_batches(database: Database, batches: Sequence[Batch]) -> list[Enqueued]:
    """Have every batch stored in order, and wait for the disk with the last of them alone.

    The log keeps the order of commits, so that what is on the disk with the last is all of them.
    All go by one connection: a server that crashed has lost what it had not written, and with it
    every connection. Had a batch gone by another one, nobody would have known.
    """
    async with database.pool.use() as connection:

        async def accept(batch: Batch, columns: tuple[Any, ...]) -> Any:
            name = accepting(database, waits=batch is batches[-1])
            [[before, *_]] = await database.call(name, on=connection, jobs=columns)
            return before

        return await one_ahead(batches, packed_columns, accept, enqueued)


def enqueued(jobs: Sequence[NewJob], before: Sequence[str | None] | None) -> list[Enqueued]:
    """What became of the jobs, from the ids that were there before them."""
    if before is None:
        return all_created([job.id for job in jobs])
    return [
        Enqueued(job.id, created=True) if first is None else Enqueued(first, created=False)
        for job, first in zip(jobs, before, strict=True)
    ]
