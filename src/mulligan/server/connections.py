"""Connections to the server: how many there may be, and how long a request may take to arrive."""

import asyncio
from itertools import count
from typing import Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mulligan.server.bodies import REQUEST_WITHIN

MAX_CONNECTIONS = 1000
# Extra time for a late body, which is refused with a message that the client should get.
READ_REFUSAL_WITHIN = 5.0
TURNS = count()
FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Connection(H11Protocol):
    """One connection, closed when the head or the body of a request does not arrive in time.

    This applies before a token is checked. Where there are too many connections, a new one
    replaces the one that has been sending its request's head for longest; if none is sending a
    head, the new one is refused.
    """

    within: float = REQUEST_WITHIN
    most: int = MAX_CONNECTIONS
    awaits: Literal["head", "body"] | None = None
    turn = 0  # smaller the longer it waits; the loop's clock may stand still
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the head of the first request."""
        full = len(self.connections) >= self.most and not self._make_room()
        super().connection_made(transport)
        if full:
            transport.write(FULL)
            transport.close()
        else:
            self._await("head")

    def data_received(self, data: bytes) -> None:
        """Pass on the data, and update what is missing."""
        super().data_received(data)
        self._review()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._review()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._await(None)
        super().connection_lost(exc)

    def _make_room(self) -> bool:
        all_ = (each for each in self.connections if isinstance(each, Connection))
        sending = [each for each in all_ if each.awaits == "head"]
        if not sending:
            return False
        oldest = min(sending, key=lambda each: each.turn)
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True

    def _review(self) -> None:
        """Set the timer for the missing part of a request; idle connections have their own."""
        theirs = self.conn.their_state
        if theirs is h11.SEND_BODY:
            self._await("body")
        elif theirs is h11.IDLE and self.conn.trailing_data[0]:
            self._await("head")
        else:
            self._await(None)

    def _await(self, part: Literal["head", "body"] | None) -> None:
        if part == self.awaits:
            return
        self.awaits = part
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if part is not None:
            self.turn = next(TURNS)
            grace = min(self.within, READ_REFUSAL_WITHIN) if part == "body" else 0.0
            self._deadline = self.loop.call_later(self.within + grace, self.transport.abort)


def bounded(within: float, most: int) -> type[Connection]:
    """A connection class with these bounds."""
    return type("Bounded", (Connection,), {"within": within, "most": most})
