"""One connection: how it is made, how long it waits for an answer, and what its errors mean."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.stores.postgres.url import ANSWER_WITHIN, Url

# With these, the kernel ends a connection whose network is gone, even in the middle of a statement
# without a time limit.
DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "application_name": "mulligan",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
MOST_MILLISECONDS = 2**31 - 1
TOO_LARGE = "22003"
# a lock was waited for too long; a transaction was left open too long
GIVEN_UP = frozenset({"55P03", "25P03"})
# 53 out of resources, 57 shutdown, 08 connection; no state at all: the socket broke
AWAY = ("53", "57", "08", "")


class TooLargeError(StoreError):
    """A number came to be more than its column holds."""


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """Waits for the answer to each message for a limited time, then raises OperationalError.

    A server that was stopped, or that a network has swallowed, says nothing at all, and the driver
    would wait for ever. Its own way out, to cancel, asks that same server. So the socket is shut
    down: what was under way may have happened or not, and nothing is read on from its middle.
    """

    answer_within = ANSWER_WITHIN
    knows_accept_one = False
    _asked: float | None = None
    _watch: asyncio.TimerHandle | None = None
    _hung_up = False
    _unlimited = False

    async def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """As the driver waits, for so long."""
        if self._unlimited:
            return await super().wait(gen, *args, **options)
        loop = asyncio.get_running_loop()
        self._asked = loop.time()
        if self._watch is None:
            self._watch = loop.call_later(self.answer_within, self._look)
        try:
            return await super().wait(gen, *args, **options)
        except psycopg.OperationalError:
            if self._hung_up:
                message = f"no answer within {self.answer_within:g} s"
                raise psycopg.OperationalError(message) from None
            raise
        finally:
            self._asked = None

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Set no limit to what may rightly take long."""
        self._unlimited = True
        try:
            yield
        finally:
            self._unlimited = False

    def _look(self) -> None:
        """End the connection if its time is up. One timer serves all messages, mostly in vain."""
        self._watch = None
        if self._asked is None:
            return
        loop = asyncio.get_running_loop()
        left = self._asked + self.answer_within - loop.time()
        if left > 0:
            self._watch = loop.call_later(left, self._look)
            return
        self._hung_up = True
        with socket.socket(fileno=os.dup(self.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


async def connect(url: Url) -> Connection:
    """A new connection; the driver's errors are raised as they are. Nothing is prepared on it."""
    conninfo, options = options_of(url)
    connection = await Connection.connect(conninfo, **options)
    connection.answer_within = url.answer_within
    # of transactions that the driver begins
    await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
    return connection


def options_of(url: Url) -> tuple[str, dict[str, Any]]:
    """How a connection is made: what libpq is told, and what the driver is."""
    defaults = DEFAULTS | {"tcp_user_timeout": milliseconds(url.answer_within)}
    given = conninfo_to_dict(url.conninfo)
    conninfo = make_conninfo("", **(defaults | given | {"client_encoding": "UTF8"}))
    return conninfo, {"autocommit": True, "prepare_threshold": None}


def milliseconds(seconds: float) -> int:
    """Return a duration in the range of PostgreSQL's settings, at least 1 ms."""
    return min(round(seconds * 1000) + 1, MOST_MILLISECONDS)


def not_connected(url: Url, error: psycopg.Error | OSError) -> StoreError | InvalidError:
    """Why no connection was made, in mulligan's words."""
    if isinstance(error, psycopg.ProgrammingError):
        return InvalidError(said(url, "cannot be used: check the store URL", error))
    return StoreUnavailableError(said(url, "cannot be reached", error))


def translated(url: Url, error: psycopg.Error) -> StoreError:
    """The error of a statement in mulligan's words."""
    state = error.sqlstate or ""
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if state in GIVEN_UP or (lost and state[:2] in AWAY):
        return StoreUnavailableError(said(url, "is not available", error))
    kind = TooLargeError if state == TOO_LARGE else StoreError
    return kind(said(url, "refused", error))


def said(url: Url, what: str, error: Exception) -> str:
    """A sentence about the server with the reason, without credentials."""
    reason = str(error).strip().partition("\n")[0]
    if url.password:
        reason = reason.replace(url.password, "***")
    if "://" in reason:  # a URL that libpq could not read, as it stood
        reason = type(error).__name__
    return f"PostgreSQL at {url.shown} {what}: {reason}"
