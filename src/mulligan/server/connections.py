"""Connections to the server: how many there may be, and how long each may wait for its client."""

import asyncio
import ipaddress
import socket
import struct
from collections import Counter
from itertools import count
from typing import Literal

import h11
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mulligan.server.bodies import REQUEST_WITHIN

MAX_CONNECTIONS = 1000
# Extra time for a late body, which is refused with a message that the client should get.
READ_REFUSAL_WITHIN = 5.0
# A client that reads an answer must read this many bytes in the time that a request may take.
LEAST_READ = 16 * 1024
TURNS = count()
FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
# Closes a socket at once: the system keeps nothing of it for a client that may never read it.
AT_ONCE = struct.pack("ii", 1, 0)
# Answers after which the connection is closed: the sender may not be here at all.
REFUSED = frozenset({401, 403, 421})


class Connection(H11Protocol):
    """One connection, closed when its client keeps the server waiting for too long.

    This applies before a token is checked: to the head and the body of a request, and to the
    reading of an answer. When there are too many connections, a new one replaces one that waits
    for its client: of the address with the most connections, the one that has waited longest. If
    none waits, an address with less than its share gets the place of the newest connection of the
    address with the most. Otherwise the new connection is refused.
    """

    within: float = REQUEST_WITHIN
    most: int = MAX_CONNECTIONS
    awaits: Literal["head", "body", "reader", "next"] | None = None
    turn = 0  # smaller the longer it waits; the loop's clock may stand still
    address = ""
    _unread = 0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the head of the first request."""
        peer = transport.get_extra_info("peername")
        self.address = address_of(peer[0]) if isinstance(peer, tuple) else ""
        full = len(self.connections) >= self.most and not self._make_room()
        super().connection_made(transport)
        # Any byte that the client has left unread starts the deadline for reading.
        transport.set_write_buffer_limits(high=0)
        if full:
            self.connections.discard(self)
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

    def pause_writing(self) -> None:
        """Wait for the client to read what was written."""
        super().pause_writing()
        self._review()

    def resume_writing(self) -> None:
        """Go on: the client has read all."""
        super().resume_writing()
        self._review()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._await(None)

    def drop(self) -> None:
        """Close the connection and discard what its client has not read."""
        peer: socket.socket = self.transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()

    def _make_room(self) -> bool:
        ours = [each for each in self.connections if isinstance(each, Connection)]
        held = Counter(each.address for each in ours)
        waiting = [each for each in ours if each.awaits]
        if waiting:
            victim = min(waiting, key=lambda each: (-held[each.address], each.turn))
        else:
            busiest, number = max(held.items(), key=lambda each: each[1])
            share = self.most / len(held.keys() | {self.address})
            if held[self.address] + 1 > share or number <= share:
                return False
            victim = max(
                (each for each in ours if each.address == busiest), key=lambda each: each.turn
            )
        self.connections.discard(victim)
        victim.drop()
        return True

    def _review(self) -> None:
        """Set the timer for the part that the client owes."""
        theirs = self.conn.their_state
        if self.flow.write_paused:
            self._await("reader")
        elif theirs is h11.SEND_BODY:
            self._await("body")
        elif theirs is h11.IDLE:
            self._await("head" if self.conn.trailing_data[0] else "next")
        else:
            self._await(None)

    def _await(self, part: Literal["head", "body", "reader", "next"] | None) -> None:
        if part == self.awaits:
            return
        self.awaits = part
        self.turn = next(TURNS)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if part == "reader":
            self._unread = self.transport.get_write_buffer_size()
            self._deadline = self.loop.call_later(self.within, self._check_reader)
        elif part in ("head", "body"):  # idle connections have a timer of their own
            grace = min(self.within, READ_REFUSAL_WITHIN) if part == "body" else 0.0
            self._deadline = self.loop.call_later(self.within + grace, self.transport.abort)

    def _check_reader(self) -> None:
        """Close the connection unless its client has read enough since the last check."""
        unread = self.transport.get_write_buffer_size()
        if self._unread - unread < LEAST_READ:
            self.drop()
            return
        self._unread, self.turn = unread, next(TURNS)
        self._deadline = self.loop.call_later(self.within, self._check_reader)


class ClosesRefused:
    """Closes the connection after the answer to a request that is refused for its sender."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in REFUSED:
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        await self._application(scope, receive, send_last)


def address_of(host: str) -> str:
    """What counts as one address: of IPv6, the network that a provider gives to one customer."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.version == 4 or address.ipv4_mapped:  # noqa: PLR2004 - the version of IP
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def bounded(within: float, most: int) -> type[Connection]:
    """A connection class with these bounds."""
    return type("Bounded", (Connection,), {"within": within, "most": most})
