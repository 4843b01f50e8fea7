"""The functions of one schema, called by name, and the time of the store."""

from collections.abc import Callable
from typing import Any

import psycopg

from mulligan.stores.postgres.connection import Connection, TooLargeError
from mulligan.stores.postgres.fields import micros
from mulligan.stores.postgres.pool import Pool, Row
from mulligan.stores.postgres.schema import check_version, migrate
from mulligan.stores.postgres.statements import SENT, Statements, in_order
from mulligan.stores.postgres.url import Url


class Database:
    """What the rooms of the store share. The server's clock decides unless one is given."""

    def __init__(self, url: Url, clock: Callable[[], float] | None) -> None:
        self.url = url
        self.statements = Statements(url.schema)
        self.pool = Pool(url)
        # The first call of a function on a connection takes as long as many later ones: claims,
        # which jobs wait for, meet no connection that was made because others were busy.
        self.claim_pool = Pool(url)
        # Nothing is prepared: a user's work may send several statements at once.
        self.sink_pool = Pool(url, prepares=False)
        for pool in self.pools:
            pool.beside = self.pools
        self._clock = clock

    @property
    def pools(self) -> tuple[Pool, ...]:
        """All connections."""
        return self.sink_pool, self.claim_pool, self.pool

    @property
    def losses(self) -> int:
        """The number of connections that were lost while they were in use."""
        return sum(pool.losses for pool in self.pools)

    def now(self) -> int | None:
        """The time in microseconds, None where the server knows it."""
        return None if self._clock is None else micros(self._clock())

    async def call(
        self, name: str, /, on: Connection | None = None, **values: Any
    ) -> list[tuple[Any, ...]]:
        """The rows of a call in `statements.py`, its values by the names of the parameters."""
        pool = self.claim_pool if name == "claim" else self.pool
        return await pool.run(self.statements[name], self.values(name, values), on)

    async def call_counting(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """As `call`; tokens that another program set to the last number there is are renewed."""
        try:
            return await self.call(name, **values)
        except TooLargeError:
            await self.call("renew_tokens")
            return await self.call(name, **values)

    def values(self, name: str, values: dict[str, Any]) -> Row:
        """The values of a call in the order in which it is sent, with the time if it takes one."""
        if "given" in SENT[name]:
            values["given"] = self.now()
        return in_order(name, values)

    async def open(self, *, read_only: bool) -> bool:
        """Make or check the schema; whether one server process serves a whole connection."""
        self.pool.read_only = read_only
        for pool in self.pools:
            pool.begin()
            # until it is known what stands in between, nothing is set or prepared
            pool.pooled = True

        async def prepare(connection: Connection) -> bool:
            if read_only:
                await check_version(connection, self.url.schema)
            else:
                await migrate(connection, self.url.schema)
            return await process_of(connection) == connection.info.backend_pid

        try:
            return await self.pool.attempt(prepare)
        finally:
            await self.pool.close()

    async def shares_process(self) -> bool:
        """Return whether one server process served two connections in turn."""
        try:
            async with await self.pool.connect() as first, await self.pool.connect() as second:
                process = await process_of(first)
                async with second.transaction():
                    return await process_of(second) == process
        except psycopg.Error as error:
            raise await self.pool.explained(error) from None

    def be_direct(self) -> None:
        """Set and prepare things for whole sessions, which no other program shares."""
        for pool in self.pools:
            pool.pooled = False

    async def close(self) -> None:
        """Close all connections; those in use are closed when they are given back."""
        for pool in self.pools:
            await pool.end()


async def process_of(connection: Connection) -> int:
    """Return the id of the server process that serves the connection at this moment."""
    row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
    return int(row[0]) if row else 0
