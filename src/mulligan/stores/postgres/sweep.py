"""Sweeps: dead rows are vacuumed when many have gathered, sooner than autovacuum wakes up."""

import asyncio
import logging
from contextlib import suppress

from psycopg import sql

from mulligan.core.errors import StoreError
from mulligan.stores.postgres.connection import Connection
from mulligan.stores.postgres.pool import Pool

log = logging.getLogger("mulligan.store")

# Autovacuum looks once a minute; a busy queue leaves millions of dead rows by then, and every
# claim would step over them.
EVERY = 40_000


class Sweeper:
    """Counts the rows that one store killed in each table, and vacuums in the background."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._dead: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    def killed(self, table: str, rows: int) -> None:
        """Count rows of the table that died; sweep when there are enough."""
        self._dead[table] = self._dead.get(table, 0) + rows
        if self._dead[table] >= EVERY and (self._task is None or self._task.done()):
            self._dead[table] = 0
            self._task = asyncio.create_task(self._sweep(table))

    async def close(self) -> None:
        """Let a sweep under way end."""
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    async def _sweep(self, table: str) -> None:
        name = sql.Identifier(self._pool.url.schema, table)
        # A table that another process is vacuuming is skipped.
        statement = sql.SQL("VACUUM (SKIP_LOCKED, TRUNCATE off) {}").format(name)

        async def vacuum(connection: Connection) -> None:
            with connection.unlimited():
                await connection.execute(statement, prepare=False)

        try:
            await self._pool.attempt(vacuum)
        except StoreError as error:
            log.debug("vacuum of %s failed: %s", table, error)
