"""Wake-ups: one LISTEN connection per store where there can be one, polling where not."""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Protocol
from uuid import uuid4

import psycopg
from psycopg import sql

from mulligan.core.errors import StoreError
from mulligan.stores.postgres.connection import Connection
from mulligan.stores.postgres.listen import received
from mulligan.stores.postgres.pool import Pool

log = logging.getLogger("mulligan.store")

# A wake-up may be missed while its transaction commits; these looks find what it was for.
FIRST_LOOK = 0.05
LATER_LOOKS = 1.0
# without LISTEN: how soon the first look comes, and the longest pause that looks grow to
POLL_FIRST, POLL_LONGEST, POLL_GROWTH = 0.02, 0.25, 1.5
SELF_TEST = 1.0
# In microseconds: how long a job may wait after a sleeper was woken for it, before another one that
# looks takes it for its own.
OVERDUE = 1_000_000


class Look(Protocol):
    """Ask the store whether there is something for the worker."""

    def __call__(self, *, known: bool) -> Awaitable[bool]:
        """`known`: its last wake-up has ended a wait already."""


class Sleepers:
    """The sleeping workers of one store. `channel` is where the server wakes them."""

    def __init__(self, pool: Pool, *, listen: bool) -> None:
        self.channel = f"mulligan_{uuid4().hex}"
        self.listen = listen
        self._pool = pool
        self._woken: dict[str, asyncio.Event] = {}
        self._known: set[str] = set()
        self._listener: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._starting = asyncio.Lock()

    async def wait(self, worker: str, seconds: float, look: Look) -> None:
        """Sleep until the worker is woken, a look finds something, or the time is up."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        woken = self._event(worker)
        if self.listen:
            await self._start_listener()
        # The store remembers a wake-up too, until the next claim; one that has ended a wait already
        # is forgotten there without ending this one.
        known = worker in self._known
        self._known.discard(worker)
        woken.clear()
        if await look(known=known):
            return
        pause = FIRST_LOOK if self.listen else POLL_FIRST
        while (left := until - clock()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, pause)):
                    await woken.wait()
            if woken.is_set():
                self._known.add(worker)
                return
            if clock() < until and await look(known=False):
                return
            pause = LATER_LOOKS if self.listen else min(pause * POLL_GROWTH, POLL_LONGEST)

    def wake(self, worker: str) -> None:
        """End the worker's wait, if it is one of this store's."""
        if woken := self._woken.get(worker):
            woken.set()

    def claimed(self, worker: str) -> None:
        """The worker's claim has made the store forget its wake-up."""
        self._known.discard(worker)

    def forget(self, worker: str) -> None:
        """The worker is gone."""
        self._woken.pop(worker, None)
        self._known.discard(worker)

    async def test(self) -> bool:
        """Whether a notification from one connection reaches another that listens."""
        channel = f"mulligan_{uuid4().hex}"
        listener = await self._pool.connect()
        try:
            await listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            sender = await self._pool.connect()
            try:
                await sender.execute("SELECT pg_notify(%s, '')", (channel,))
            finally:
                await sender.close()
            arrived = [n async for n in listener.notifies(timeout=SELF_TEST, stop_after=1)]
            # of a pooler's session, most likely of the one that listens
            await listener.execute(sql.SQL("UNLISTEN {}").format(sql.Identifier(channel)))
            return bool(arrived)
        except psycopg.Error:
            return False
        finally:
            await listener.close()

    async def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.cancel()
            with suppress(asyncio.CancelledError):
                await self._listener
            self._listener = None

    def _event(self, worker: str) -> asyncio.Event:
        return self._woken.setdefault(worker, asyncio.Event())

    async def _start_listener(self) -> None:
        """Start the listener if it does not run; returns when it listens."""
        async with self._starting:
            if self._listener is None or self._listener.done():
                connection = await self._pool.connect()
                self._ready.clear()
                self._listener = asyncio.create_task(self._listen(connection))
        await self._ready.wait()

    async def _listen(self, connection: Connection) -> None:
        """Wake workers until the connection is lost."""
        try:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
            self._ready.set()
            await received(connection, self.wake)
        except (psycopg.Error, StoreError) as error:
            log.warning("wake-ups stopped, starting anew: %s", type(error).__name__)
        finally:
            self._ready.set()
            await connection.close()
