"""Notifications as they come: the one way in which connections of this store listen."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import psycopg

from mulligan.stores.postgres.connection import Connection

ASK_EVERY = 5.0


async def received(connection: Connection, take: Callable[[str], None]) -> None:
    """Give each notification to `take`, until the connection is lost: then raise why.

    A server or network that has gone silent ends nothing, and nothing is sent that could miss an
    answer. So one is asked for every few seconds.
    """
    connection.add_notify_handler(lambda notification: take(notification.payload))
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(ASK_EVERY):
                await _received(connection, take)
        await connection.execute("SELECT 1")


async def _received(connection: Connection, take: Callable[[str], None]) -> None:
    """Take as soon as there is something to read.

    The driver's own way takes several steps of the loop, and looks ten times a second whether
    somebody has interrupted it.
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
