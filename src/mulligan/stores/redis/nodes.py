"""Which server to connect to: the URL's own, or one that is asked for by each new connection.

In a cluster that is the node that holds the keys, which any other node names; behind sentinels the
primary, which any of them names. Whoever does not answer is asked last from then on.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from redis.asyncio import Connection, ConnectionPool, Sentinel, SSLConnection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as LostError

from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.stores.redis.errors import AnswerError, node_of
from mulligan.stores.redis.url import Address, RedisUrl
from mulligan.stores.redis.wire import CLOSED, lost_when_closed

# How long a connection, or the answer to a command, may take; a script takes milliseconds.
ANSWER_TIMEOUT = 5.0


class Nodes:
    """The servers that may have the keys of one store, and the one that has them, if it is known.

    `known` are those to ask, in this order; `moves` counts how often another one was looked for.
    """

    def __init__(self, url: RedisUrl) -> None:
        self.url = url
        self.known: list[Address] = list(url.hosts)
        self.in_cluster = False
        self.holder: Address | None = None
        self.moves = 0

    async def connect(self) -> AbstractConnection:
        """A new connection to where the keys are, as far as is known."""
        if self.url.service:
            return await self._to_primary()
        if self.holder is not None:
            try:
                return await connected(self._driver(self.holder))
            except (RedisError, OSError):
                self.lost()  # other nodes know who holds the keys now
                raise
        for _ in self.known[1:]:
            try:
                return await connected(self._driver(self.known[0]))
            except AuthenticationError:
                raise
            except (RedisError, OSError):
                self.lost()
        return await connected(self._driver(self.known[0] if self.known else None))

    async def _to_primary(self) -> AbstractConnection:
        primary = await self._ask_sentinels()
        connection = await connected(self._driver(primary))
        # One that was demoted a moment ago may still be named; not every user may ask for its role.
        role: list[Any] = [b"master"]
        with suppress(ResponseError), lost_when_closed():
            await connection.send_command("ROLE")
            role = await connection.read_response()
        if role[0] not in (b"master", "master"):
            await connection.disconnect(nowait=True)
            raise StoreUnavailableError(
                f"{self.url.shown} is failing over: {primary[0]}:{primary[1]}, which sentinels name"
                " as the primary, is a replica"
            )
        self.holder = primary
        return connection

    async def _ask_sentinels(self) -> Address:
        """Where the primary is, by the first sentinel that knows."""
        made = self.home.connection_kwargs
        options = {name: value for name, value in made.items() if name.startswith("ssl_")}
        sentinels = Sentinel(  # type: ignore[no-untyped-call]
            self.known,
            sentinel_kwargs={
                **options,
                "ssl": issubclass(self.home.connection_class, SSLConnection),
                "username": self.url.sentinel_username,
                "password": self.url.sentinel_password,
                "socket_timeout": ANSWER_TIMEOUT,
                "socket_connect_timeout": made["socket_connect_timeout"],
                "retry": Retry(NoBackoff(), 0),
            },
        )
        try:
            host, port = await sentinels.discover_master(self.url.service)
        except MasterNotFoundError:
            raise StoreUnavailableError(
                f"{self.url.shown}: no sentinel answers that knows a primary of the service"
                f" {self.url.service!r} which is up; check the name, and that sentinels run"
            ) from None
        except RuntimeError as error:  # see lost_when_closed; the driver asked no other sentinel
            self.known = self.known[1:] + self.known[:1]
            raise LostError(CLOSED) from error
        except AuthenticationError:
            raise StoreError(
                f"{self.url.shown}: a sentinel refused the user or password; give its own by"
                " sentinel_username= and sentinel_password="
            ) from None
        finally:
            for each in sentinels.sentinels:
                await each.aclose()
        return str(host), int(port)

    def lost(self) -> None:
        """The server does not answer, or does not have the keys: ask another."""
        self.moves += 1
        self.holder = None
        if not self.url.service:
            self.known = self.known[1:] + self.known[:1]

    def moved(self, error: AnswerError) -> None:
        """A node says where the keys are."""
        self.moves += 1
        if error.code == "MOVED" and issubclass(self.home.connection_class, Connection):
            self.in_cluster = True
            host, port = node_of(error)
            self.holder = host or self._own_host, port
            if self.holder not in self.known:
                self.known.append(self.holder)
        else:
            self.holder = None

    def learn(self, slots: Sequence[Sequence[Any]]) -> None:
        """Note all nodes, and the one that holds the keys, from the answer to CLUSTER SLOTS."""
        self.in_cluster = True
        ours = key_slot(self.url.tag.encode())
        found: list[Address] = []
        for first, last, *nodes in slots:
            addresses = [address_of(node, self._own_host) for node in nodes]
            found += addresses
            if first <= ours <= last and addresses:
                self.holder = addresses[0]
        self.known = list(dict.fromkeys([*self.known, *found]))

    @property
    def is_several(self) -> bool:
        """Whether another server than the URL's may come to have the keys."""
        return self.in_cluster or bool(self.url.service)

    @property
    def _own_host(self) -> str:
        return str(self.home.connection_kwargs.get("host", "localhost"))

    def _driver(self, address: Address | None) -> AbstractConnection:
        """A connection of the driver's, not yet open, as the URL says."""
        kind, options = self.home.connection_class, self.home.connection_kwargs
        if address is None or not issubclass(kind, Connection):
            return kind(**options)
        return kind(**{**options, "host": address[0], "port": address[1]})

    @cached_property
    def home(self) -> ConnectionPool:
        """The driver's pool for the URL; it keeps no connections."""
        replicas = self.url.wait_timeout if self.url.wait_replicas else 0.0
        defaults: dict[str, Any] = {
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": ANSWER_TIMEOUT + replicas,
            "socket_connect_timeout": ANSWER_TIMEOUT,
        }
        return ConnectionPool.from_url(self.url.driver, **defaults)


async def connected(connection: AbstractConnection) -> AbstractConnection:
    """Connect, or leave nothing behind."""
    try:
        with lost_when_closed():
            await connection.connect()  # type: ignore[no-untyped-call]
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection


def address_of(node: Sequence[Any], own_host: str) -> Address:
    """Where a node of CLUSTER SLOTS is; one that does not know its name has that of the URL."""
    host = (node[0] or b"").decode().strip("?")
    return host or own_host, int(node[1])
