"""A connection that hangs up on a server that no longer answers."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

# Longer than an operation takes on a server that is alive, however busy.
ANSWER_WITHIN = 30.0


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """Waits for the answer to each message for a limited time, then raises OperationalError.

    A server that was stopped, or that a network has swallowed, says nothing at all, and the driver
    would wait for ever. Its own way out, to cancel, asks that same server. So the socket is shut
    down: what was under way may have happened or not, and nothing is read on from its middle.
    """

    answer_within = ANSWER_WITHIN
    _asked: float | None = None
    _watch: asyncio.TimerHandle | None = None
    _hung_up = False
    _patient = False

    async def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """As the driver waits, for so long."""
        if self._patient:
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
    def patient(self) -> Iterator[None]:
        """Set no limit to what may rightly take long."""
        self._patient = True
        try:
            yield
        finally:
            self._patient = False

    def _look(self) -> None:
        """Hang up if it is time. One timer serves all messages: most are answered long before."""
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
