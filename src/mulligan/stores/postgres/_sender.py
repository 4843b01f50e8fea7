"""Many batches of new jobs: the server stores one while the next is encoded."""

from collections.abc import Callable, Sequence
from typing import Any

from mulligan.core.job import Enqueued
from mulligan.stores.batches import Batch, one_ahead
from mulligan.stores.postgres._connections import Connections
from mulligan.stores.postgres._encode import packed_columns
from mulligan.stores.postgres._statements import Statements
from mulligan.stores.postgres._transaction import enqueued


class Sender:
    """Sends batches in order, and waits for the disk with the last of them alone.

    The log keeps the order of commits, so that what is on the disk with the last is all of them.
    All go by one connection: a server that crashed has lost what it had not written, and with it
    every connection. Had a batch gone by another one, nobody would have been told.
    """

    def __init__(
        self, connections: Connections, statements: Statements, now: Callable[[], int | None]
    ) -> None:
        self._connections = connections
        self._statements = statements
        self._now = now

    async def send(self, batches: Sequence[Batch]) -> list[Enqueued]:
        """Have every batch stored, and the last of them on the disk."""
        async with self._connections.use() as connection:

            async def accept(batch: Batch, columns: tuple[Any, ...]) -> Any:
                # a pooler keeps its connection to us when it loses that to the server
                waits = batch is batches[-1] or self._connections.pooled
                statement = self._statements["accept" if waits else "accept_soon"]
                values = (self._now(), *columns)
                [[before, *_]] = await self._connections.run(statement, values, connection)
                return before

            return await one_ahead(batches, packed_columns, accept, enqueued)
