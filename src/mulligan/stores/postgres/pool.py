"""A few connections, made when needed, and closed when their state is in doubt."""

import asyncio
import os
import random
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from mulligan.core.errors import StoreError
from mulligan.stores.postgres.connection import Connection, connect, not_connected, translated
from mulligan.stores.postgres.schema import known, stored_in
from mulligan.stores.postgres.session import (
    BEGIN,
    BEGIN_READ_ONLY,
    ISOLATION,
    LITERALS,
    READ_ONLY,
    lock_timeout,
    set_for_session,
    set_for_transaction,
)
from mulligan.stores.postgres.url import Url

Answer = TypeVar("Answer")
Row = tuple[Any, ...]

MOST = 8
# serialization failure and deadlock: nothing was written, and the next try may well succeed
PASSING = frozenset({"40001", "40P01"})
# a function, table, column or type is not there: perhaps a newer release has replaced it
REPLACED = frozenset({"42883", "42P01", "42703", "42704"})
TRIES = 6
FIRST_PAUSE = 0.005


class Pool:
    """Up to eight connections of one store in one event loop.

    `pooled` is set when something like PgBouncer stands in between and hands each transaction to
    another server process: nothing is prepared or set for a session then. A user's own work is
    given connections that prepare nothing and wait for locks as long as it takes.
    """

    def __init__(self, url: Url, *, prepares: bool = True) -> None:
        self.url = url
        self.prepares = prepares
        self.pooled = False
        self.read_only = False
        # Pools of the same server: when one loses a connection, the idle ones of all are closed.
        self.beside: Sequence[Pool] = (self,)
        self.losses = 0
        self._ended = False
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(MOST)

    async def connect(self) -> Connection:
        """A new connection of the caller's own. Raises StoreUnavailableError."""
        try:
            connection = await connect(self.url)
            await self._set_up(connection)
        except (psycopg.Error, OSError) as error:
            raise not_connected(self.url, error) from None
        return connection

    async def _set_up(self, connection: Connection) -> None:
        if self.pooled:
            return
        settings = self._settings(connection) | ISOLATION | (READ_ONLY if self.read_only else {})
        try:
            await connection.execute(*set_for_session(settings))
        except BaseException:
            await connection.close()
            raise
        if self.prepares:
            connection.prepare_threshold = 0

    def _settings(self, connection: Connection) -> dict[str, str]:
        return LITERALS | (lock_timeout(connection.answer_within) if self.prepares else {})

    async def set_in_transaction(self, connection: Connection) -> None:
        """Behind a pooler, apply the session's settings to the open transaction alone."""
        if self.pooled:
            await connection.execute(*set_for_transaction(self._settings(connection)))

    def begin(self) -> None:
        """Keep connections from now on."""
        self._ended = False

    async def end(self) -> None:
        """Keep no connection any more: one that is in use is closed when it is given back."""
        self._ended = True
        await self.close()

    async def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            await self._idle.pop().close()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """A connection for a while; it is kept for the next user only if it is as good as new."""
        connection = await self._take()
        try:
            yield connection
        finally:
            await self._give_back(connection)

    async def run(self, query: str, values: Row = (), on: Connection | None = None) -> list[Row]:
        """The rows of one statement, which is a transaction of its own; see `attempt`."""

        async def ask(connection: Connection) -> list[Row]:
            cursor = connection.cursor(binary=True)
            if self.pooled:
                async with self._transaction(connection):
                    await cursor.execute(query.encode(), values)
            else:
                await cursor.execute(query.encode(), values)
            return await cursor.fetchall()

        return await self.attempt(ask, on)

    @asynccontextmanager
    async def _transaction(self, connection: Connection) -> AsyncIterator[None]:
        """Send a transaction and its statements at once, so that the server never waits for us."""
        try:
            async with connection.pipeline():
                await connection.execute(BEGIN_READ_ONLY if self.read_only else BEGIN)
                await self.set_in_transaction(connection)
                yield
                await connection.execute("COMMIT")
        except psycopg.Error:
            if connection.pgconn.transaction_status == TransactionStatus.INERROR:
                await connection.rollback()
            raise

    async def attempt(
        self, work: Callable[[Connection], Awaitable[Answer]], on: Connection | None = None
    ) -> Answer:
        """Do the work on a connection, again if it met a deadlock or a serialization failure.

        The work must be one transaction. It is done `on` no other than this connection, if one is
        given. Raises StoreUnavailableError when the connection is lost or the server does not
        answer, and StoreError when it refuses.
        """
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            try:
                if on is not None:
                    return await work(on)
                # as in `use`, which costs more than all the rest of this
                connection = await self._take()
                try:
                    return await work(connection)
                finally:
                    await self._give_back(connection)
            except psycopg.Error as error:
                if error.sqlstate not in PASSING or not left:
                    raise await self.explained(error) from None
            await asyncio.sleep(pause * (1 + random.random()))
            pause *= 2
        raise AssertionError("the last try returns or raises")

    async def explained(self, error: psycopg.Error) -> StoreError:
        """As `translated`, having looked whether a newer release has replaced what is missing."""
        if error.sqlstate in REPLACED:
            with suppress(psycopg.Error, StoreError):
                async with self.use() as connection:
                    stored = await stored_in(connection, self.url.schema)
                if stored.version and stored != known():
                    return StoreError(self._outdated(stored.version))
        return translated(self.url, error)

    def _outdated(self, version: int) -> str:
        what = "has another build's functions of" if version == known().version else "has now"
        return (
            f"schema {self.url.schema!r} of PostgreSQL at {self.url.shown} {what} version"
            f" {version}, and process {os.getpid()} on {socket.gethostname()} still runs a mulligan"
            f" that knows version {known().version}; restart this process with the newest release"
        )

    async def _take(self) -> Connection:
        await self._room.acquire()
        try:
            return await self._idle_one() or await self.connect()
        except BaseException:
            self._room.release()
            raise

    async def _give_back(self, connection: Connection) -> None:
        try:
            await self._keep(connection)
        finally:
            self._room.release()

    async def _idle_one(self) -> Connection | None:
        """An idle connection that the server has not ended meanwhile, say because it restarted."""
        while self._idle:
            connection = self._idle.pop()
            if is_quiet(connection):
                return connection
            await connection.close()
        return None

    async def _keep(self, connection: Connection) -> None:
        if self._ended:
            await connection.close()
        elif connection.pgconn.transaction_status == TransactionStatus.IDLE:
            self._idle.append(connection)
        elif connection.closed:
            self.losses += 1
            for pool in self.beside:
                await pool.close()
        else:
            await connection.close()


def is_quiet(connection: "psycopg.BaseConnection[Any]") -> bool:
    """Whether the server has sent nothing since the last answer; one that disconnects says so."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)
