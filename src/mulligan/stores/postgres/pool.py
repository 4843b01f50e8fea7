"""A few connections, made when needed, and closed when their state is in doubt."""

import asyncio
import os
import random
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from mulligan.core.errors import StoreError
from mulligan.stores.postgres.connection import Connection, connect, not_connected, translated
from mulligan.stores.postgres.schema import known, stored_in
from mulligan.stores.postgres.url import Url

Answer = TypeVar("Answer")
Row = tuple[Any, ...]

MOST = 8
# serialization failure and deadlock: nothing was written, and the next try may well succeed
PASSING = frozenset({"40001", "40P01"})
# a function, table, column or type is not there: perhaps a newer release has replaced it
REPLACED = frozenset({"42883", "42P01", "42703", "42704"})
# The part of the time for an answer that a lock may be waited for: a server that we no longer
# listen to must not go on waiting, each time with one more of its processes.
LOCKS = 0.9
MOST_MILLISECONDS = 2**31 - 1
SET_LOCK_TIMEOUT = "SELECT set_config('lock_timeout', %s, false)"
# How what we send is read, whatever the role or the database is set to.
SET_LITERALS = (
    "SELECT set_config('array_nulls', 'on', false),"
    " set_config('standard_conforming_strings', 'on', false)"
)
SET_READ_ONLY = "SELECT set_config('default_transaction_read_only', 'on', false)"
TRIES = 6
FIRST_PAUSE = 0.005


class Pool:
    """Up to eight connections of one store in one event loop.

    `pooled` is set when something like PgBouncer stands in between and hands each transaction to
    another server process: statements are not prepared then. A user's own work is given connections
    that prepare nothing and wait for locks as long as it takes.
    """

    def __init__(self, url: Url, *, prepares: bool = True) -> None:
        self.url = url
        self.prepares = prepares
        self.pooled = False
        self.read_only = False
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
        """Say how long the server waits for locks; a pooler's session is not ours to change."""
        if self.pooled:
            return
        try:
            await connection.execute(SET_LITERALS)
            if not self.prepares:
                return
            await connection.execute(SET_LOCK_TIMEOUT, (lock_timeout(connection.answer_within),))
            if self.read_only:
                await connection.execute(SET_READ_ONLY)
        except BaseException:
            await connection.close()
            raise
        connection.prepare_threshold = 0

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
            await cursor.execute(query.encode(), values)
            return await cursor.fetchall()

        return await self.attempt(ask, on)

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
            # the other idle connections were most likely ended too
            await self.close()
        else:
            await connection.close()


def lock_timeout(answer_within: float) -> str:
    """How many milliseconds the server may wait for a lock."""
    return str(min(round(answer_within * LOCKS * 1000) + 1, MOST_MILLISECONDS))


def is_quiet(connection: "psycopg.BaseConnection[Any]") -> bool:
    """Whether the server has sent nothing since the last answer; one that disconnects says so."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)
