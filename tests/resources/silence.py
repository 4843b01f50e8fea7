"""Servers that are there and say nothing, and a file that another holds."""

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from tests.databases import Server
from tests.databases._server import family, send

# What in a store's URL says that a server has two seconds to answer.
BRIEFLY = {
    "redis": {"socket_timeout": "2"},
    "postgres": {"answer_within": "2"},
    "mongo": {
        "heartbeatFrequencyMS": "500",
        "connectTimeoutMS": "1500",
        "serverSelectionTimeoutMS": "2000",
    },
}


@contextmanager
def deaf(server: Server) -> Iterator[None]:
    """The server stands still, its children included: connections stay, and nothing is answered."""
    stopped = [pid for process in server._processes for pid in family(process.pid)]
    for pid in stopped:
        send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            send(pid, signal.SIGCONT)


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Another program is writing to the file of a store."""
    connection = sqlite3.connect(unquote(urlsplit(url).path)[1:], isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()
