"""Notifications as they come: the one way in which connections of this store listen."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import psycopg

from mulligan.stores.postgres.connection import Connection

ASK_EVERY = 5.0


async def received(connection: Connection, take: Callable[[str], None]) -> None:
    """Call `take` with each payload until the connection is lost, then raise the error.

    A silent server or network does not end the connection. So a statement every few seconds checks
    that the server still answers.
    """
    connection.add_notify_handler(lambda notification: take(notification.payload))
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(ASK_EVERY):
                await _received(connection, take)
        await connection.execute("SELECT 1")


async def _received(connection: Connection, take: Callable[[str], None]) -> None:
    """Read as soon as the socket is readable.

    The driver's own generator takes several steps of the loop, and wakes ten times a second.
    """
    loop, server = asyncio.get_running_loop(), connection.pgconn
    lost: asyncio.Future[None] = loop.create_future()
    socket = connection.fileno()
    reading = True

    def read() -> None:
        nonlocal reading
        try:
            server.consume_input()
        except psycopg.Error as error:
            reading = False
            loop.remove_reader(socket)
            if not lost.done():
                lost.set_exception(error)
        while notification := server.notifies():
            take(notification.extra.decode())

    loop.add_reader(socket, read)
    try:
        await lost
    finally:
        if reading:  # a lost connection has closed its socket, and another may have its number
            loop.remove_reader(socket)
