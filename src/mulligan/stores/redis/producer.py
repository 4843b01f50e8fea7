"""Enqueue for plain code: the caller itself sends and waits, with no event loop in between."""

import select
import socket
from collections.abc import Callable, Sequence
from typing import Any

from hiredis import Reader
from redis import ConnectionPool, RedisError
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostError
from redis.retry import Retry

from mulligan.core.job import Enqueued, NewJob
from mulligan.stores.contract import NotDoneError
from mulligan.stores.redis.connection import Value, pack
from mulligan.stores.redis.enqueue import enqueue
from mulligan.stores.redis.errors import AnswerError, explain
from mulligan.stores.redis.nodes import ANSWER_TIMEOUT
from mulligan.stores.redis.scripts import script
from mulligan.stores.redis.url import RedisUrl
from mulligan.stores.redis.wire import INCOMPLETE

MOST_RECEIVED = 65_536


class BlockingProducer:
    """A connection of its own, for one thread at a time; the driver makes it, as in wire.py.

    What the server refuses, for whatever reason, is left to the store.
    """

    def __init__(self, url: RedisUrl, now: Callable[[], str]) -> None:
        self._url = url
        self._now = now
        self._connection: Any = None
        self._socket: socket.socket | None = None
        self._reader = Reader()

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As the store does; never suspends."""
        return await enqueue(self._run, jobs)

    def close(self) -> None:
        """Let go of the connection; the next job makes a new one."""
        connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.disconnect()

    async def _run(self, name: str, *values: Value) -> Any:
        made = script(name)
        words: list[Value] = ["EVALSHA", made.sha, 1, self._url.tag, self._now(), *values]
        try:
            return self._exchange(words)
        except AnswerError as error:
            if error.code != "NOSCRIPT":
                raise NotDoneError from error
        words[:2] = ["EVAL", made.source]
        try:
            return self._exchange(words)
        except AnswerError as error:
            raise NotDoneError from error

    def _exchange(self, words: Sequence[Value]) -> Any:
        line = self._open_socket() or self._connect()
        try:
            line.sendall(pack(words))
            while (answer := self._reader.gets()) is INCOMPLETE:
                self._reader.feed(received(line))
        except BaseException as error:
            self.close()
            if isinstance(error, RedisError | OSError):
                raise explain(error, self._url) from error
            raise
        if isinstance(answer, AnswerError):
            raise answer
        return answer

    def _open_socket(self) -> socket.socket | None:
        """The socket, unless the server has ended the connection meanwhile."""
        if self._socket is None:
            return None
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        if not waiting.poll(0):
            return self._socket
        self.close()
        return None

    def _connect(self) -> socket.socket:
        options: dict[str, Any] = {
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": ANSWER_TIMEOUT,
            "socket_connect_timeout": ANSWER_TIMEOUT,
        }
        try:
            self._connection = ConnectionPool.from_url(
                self._url.driver, **options
            ).make_connection()
            self._connection.connect()
        except (RedisError, OSError, TypeError, ValueError) as error:
            self.close()
            raise NotDoneError from error
        line = getattr(self._connection, "_sock", None)
        if not isinstance(line, socket.socket):  # another release of the driver keeps it elsewhere
            self.close()
            raise NotDoneError
        self._reader = Reader(replyError=AnswerError, notEnoughData=INCOMPLETE)
        self._socket = line
        return line


def received(line: socket.socket) -> bytes:
    """What the server has sent by now, at least a byte."""
    data = line.recv(MOST_RECEIVED)
    if not data:
        raise LostError("the server closed the connection")
    return data
