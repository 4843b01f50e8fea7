"""Real servers for the tests, on free ports of 127.0.0.1.

`python -m tests.databases run -- COMMAND` brings up one of each for a whole run and tells COMMAND
their URLs by environment variables; `tests.databases.plugin` hands those to tests. A test that has
to kill a server starts one of its own:

    with RedisServer() as server:
        ...             # server.url
        server.kill()   # as if the power went
        server.start()  # same port, same data
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.databases._postgres import PostgresServer
from tests.databases._redis import RedisServer
from tests.databases._redis_cluster import RedisCluster, RedisSentinels
from tests.databases._server import Server, Unavailable
from tests.databases.mongo import DocumentDBServer, MongodServer, mongo_server

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS: dict[str, Callable[[], Server]] = {
    "redis": RedisServer,
    "postgres": PostgresServer,
    "mongo": mongo_server,
}
# for a whole run, which kills none of them: Redis as it comes, which is what benchmarks measure
SHARED_SERVERS = SERVERS | {"redis": lambda: RedisServer(fsync="everysec")}

__all__ = [
    "SERVERS",
    "SHARED_SERVERS",
    "DocumentDBServer",
    "MongodServer",
    "PostgresServer",
    "RedisCluster",
    "RedisSentinels",
    "RedisServer",
    "Server",
    "Unavailable",
    "mongo_server",
    "unavailable_variable",
    "url_variable",
]


def url_variable(store: str) -> str:
    """The environment variable that holds the URL of a store's server."""
    return f"MULLIGAN_TEST_{store.upper()}_URL"


def unavailable_variable(store: str) -> str:
    """The environment variable that says why a store has no server."""
    return f"MULLIGAN_TEST_{store.upper()}_UNAVAILABLE"
