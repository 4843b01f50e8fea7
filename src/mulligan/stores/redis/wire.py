"""One connection to the server, on which an answer goes straight to the call that awaits it.

The driver makes the connection: TLS, passwords, databases, names. From then on it is used here: an
exchange through the driver passes tasks, timers and buffers that cost more than all the rest of it.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from hiredis import ProtocolError, Reader
from redis import __version__ as driver_version
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as LostError

from mulligan.core.errors import StoreError
from mulligan.stores.redis.errors import AnswerError

# What a reader gives for an answer of which a part has yet to come.
INCOMPLETE = object()
CLOSED = "the server closed the connection"


class Wire(asyncio.Protocol):
    """Sends commands and gives their answers, one exchange at a time.

    Answers come in order and say nothing of what they answer: a connection that somebody has
    stopped waiting on is closed.
    """

    def __init__(self, connection: AbstractConnection) -> None:
        """Take over the transport of a connection that the driver has just made."""
        self._writer = writer_of(connection)  # which closes the transport when it is forgotten
        reader = getattr(connection, "_reader", None)
        connection._reader = connection._writer = None  # noqa: SLF001 - it may not close it now
        self._transport = cast("asyncio.Transport", self._writer.transport)
        self._transport.set_protocol(self)
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(replyError=AnswerError, notEnoughData=INCOMPLETE)
        self._answers: list[Any] = []
        self._waiting: asyncio.Future[None] | None = None
        self._expected = 0
        # The transport reports the end of the stream once: the driver may have read it already.
        self._closed = isinstance(reader, asyncio.StreamReader) and reader.at_eof()

    @property
    def closed(self) -> bool:
        """Whether the server has ended the connection."""
        return self._closed or self._transport.is_closing()

    async def exchange(self, packed: Sequence[bytes], within: float | None) -> list[Any]:
        """Send commands and wait for all their answers; an error of the server is one of them.

        Raises TimeoutError if they have not come after so many seconds.
        """
        self.send(packed)
        waiting = self._waiting = self._loop.create_future()
        # As asyncio.timeout, which costs several times as much.
        timer = None if within is None else self._loop.call_later(within, self._give_up)
        try:
            await waiting
        except BaseException:
            self.close()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        answers, self._answers = self._answers, []
        return answers

    def send(self, packed: Sequence[bytes]) -> None:
        """Send commands, without waiting for their answers."""
        self._expected = len(packed)
        self._write(b"".join(packed))

    def _write(self, data: bytes) -> None:
        """Raise at once if the transport is closed: its end was reported before, and only once."""
        if self.closed:
            raise LostError(CLOSED)
        try:
            self._transport.write(data)
        except RuntimeError as error:  # see lost_when_closed; this is called for every command
            self.close()
            raise LostError(CLOSED) from error

    def close(self) -> None:
        """Close at once."""
        self._closed = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Collect answers until all have come; one that nobody waits for is a reason to close."""
        self._reader.feed(data)
        try:
            while (answer := self._reader.gets()) is not INCOMPLETE:
                self._answers.append(answer)
        except ProtocolError as error:
            self.connection_lost(error)
        if self._waiting is None or self._waiting.done():
            self.close()
        elif len(self._answers) == self._expected:
            self._waiting.set_result(None)

    def eof_received(self) -> None:
        """Send nothing more; the transport closes itself."""
        self._closed = True

    def connection_lost(self, error: Exception | None) -> None:
        """Raise in the call that waits."""
        self._closed = True
        lost = LostError(CLOSED)
        lost.__cause__ = error
        self._fail(lost)

    def _give_up(self) -> None:
        self._fail(TimeoutError())

    def _fail(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)


@contextmanager
def lost_when_closed() -> Iterator[None]:
    """Raise ConnectionError where uvloop raises RuntimeError: for a write to a closed transport.

    asyncio's own loop ignores such a write.
    """
    try:
        yield
    except RuntimeError as error:
        raise LostError(CLOSED) from error


def writer_of(connection: AbstractConnection) -> asyncio.StreamWriter:
    """The stream that the driver writes to, which it lends to nobody by a public name."""
    writer = getattr(connection, "_writer", None)
    if not isinstance(writer, asyncio.StreamWriter):
        raise StoreError(
            f"redis-py {driver_version} keeps its connections in another way than this mulligan"
            " knows; run: pip install 'mulligan[redis]'"
        )
    return writer
