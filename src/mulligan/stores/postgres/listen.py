"""Notifications as they come: the one way in which connections of this store listen."""

import asyncio
from collections.abc import Callable

import psycopg

from mulligan.stores.postgres.connection import Connection


async def received(connection: Connection, take: Callable[[str], None]) -> None:
    """Give each notification to `take`, until the connection is lost: then raise why.

    As soon as there is something to read: the driver's own way takes several steps of the loop,
    and looks ten times a second whether somebody has interrupted it.
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
