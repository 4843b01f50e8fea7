from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

from tests.databases._redis import RedisServer
from tests.databases._server import LOOPBACK, Unavailable, free_port, until

if TYPE_CHECKING:
    from redis import Redis

SLOTS = 16_384
# Nodes of a cluster talk to each other at the port that is so much higher.
BUS = 10_000
FORMED_WITHIN = 60.0
# Milliseconds that a server may be silent before the others replace it.
SILENCE = 1000


class RedisCluster:
    """A Redis Cluster: so many primaries, which share the slots out evenly, with a replica each.

    A primary that is killed is replaced by its replica after about two seconds.
    """

    def __init__(self, primaries: int = 3, *, silence: int = SILENCE) -> None:
        self.servers: list[RedisServer] = []
        for _ in range(2 * primaries):
            server = RedisServer(fsync="no")
            while server.port + BUS > 65_535 or is_taken(server.port + BUS):
                server.port = free_port()
            server.further = {
                "cluster-enabled": "yes",
                "cluster-node-timeout": str(silence),
                "cluster-require-full-coverage": "no",
                "repl-diskless-sync-delay": "0",
            }
            self.servers.append(server)
        self._primaries = primaries
        self._stack = ExitStack()
        self._clients: dict[int, Redis] = {}

    @property
    def hosts(self) -> str:
        """All nodes, as a URL names them."""
        return ",".join(f"{LOOPBACK}:{server.port}" for server in self.servers)

    @property
    def url(self) -> str:
        """A URL that names all of them."""
        return f"redis://{self.hosts}/0"

    def __enter__(self) -> Self:
        try:
            for server in self.servers:
                self._stack.enter_context(server)
            self._form()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()
        for server in self.servers:
            server.kill()  # told to end, a primary would wait for its replica
        self._stack.close()

    def ask(self, server: RedisServer, *words: Any) -> Any:
        """Send one node a command."""
        if server.port not in self._clients:
            from redis import Redis  # noqa: PLC0415 - a driver is needed only where its server is

            self._clients[server.port] = Redis.from_url(server.url, decode_responses=True)
        return self._clients[server.port].execute_command(*words)

    def _form(self) -> None:
        share = -(-SLOTS // self._primaries)
        for number, server in enumerate(self.servers[: self._primaries]):
            slots = range(SLOTS)[number * share : (number + 1) * share]
            self.ask(server, "CLUSTER", "ADDSLOTS", *slots)
        for server in self.servers[1:]:
            self.ask(server, "CLUSTER", "MEET", LOOPBACK, self.servers[0].port)
        known = f"cluster_known_nodes:{len(self.servers)}"
        self._until(lambda: all(known in self._info(each) for each in self.servers))
        for primary, replica in zip(
            self.servers[: self._primaries], self.servers[self._primaries :], strict=True
        ):
            self.ask(replica, "CLUSTER", "REPLICATE", self.id_of(primary))
        self.until_whole()

    def until_whole(self) -> None:
        """Return when every server that runs is in step: slots served, each primary replicated."""
        self._until(lambda: all(self._is_well(each) for each in self.servers if each.running))

    def _is_well(self, server: RedisServer) -> bool:
        if "cluster_state:ok" not in self._info(server):
            return False
        role = self.ask(server, "ROLE")
        return len(role[2]) > 0 if role[0] == "master" else role[3] == "connected"

    def _info(self, server: RedisServer) -> str:
        return str(self.ask(server, "CLUSTER", "INFO"))

    def _until(self, holds: Any) -> None:
        def quietly() -> bool:
            from redis import RedisError  # noqa: PLC0415 - as above

            with suppress(RedisError):
                return bool(holds())
            return False

        if not until(quietly, FORMED_WITHIN):
            raise Unavailable("the cluster did not form: " + self.servers[0].log_end())

    def id_of(self, server: RedisServer) -> str:
        """The name that nodes have among themselves."""
        return str(self.ask(server, "CLUSTER", "MYID"))

    def holder(self, key: str) -> RedisServer:
        """The primary that has the slot of this key, as the first node that runs says."""
        asked = next(each for each in self.servers if each.running)
        slot = int(self.ask(asked, "CLUSTER", "KEYSLOT", key))
        slots = self.ask(asked, "CLUSTER", "SLOTS")
        [port] = [each[2][1] for each in slots if each[0] <= slot <= each[1]]
        [found] = [each for each in self.servers if each.port == port]
        return found

    def primaries(self) -> list[RedisServer]:
        """Those that have slots now."""
        asked = next(each for each in self.servers if each.running)
        ports = {each[2][1] for each in self.ask(asked, "CLUSTER", "SLOTS")}
        return [each for each in self.servers if each.port in ports]

    def move(self, key: str, to: RedisServer, between: Any = None) -> int:
        """Move the slot of this key, some keys at a time as `redis-cli --cluster reshard` does.

        `between` is called when a part of the keys has moved. Returns how many there were.
        """
        old = self.holder(key)
        slot = int(self.ask(old, "CLUSTER", "KEYSLOT", key))
        self.ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(old))
        self.ask(old, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))
        moved = 0
        while keys := self.ask(old, "CLUSTER", "GETKEYSINSLOT", slot, 10):
            self.ask(old, "MIGRATE", LOOPBACK, to.port, "", 0, 5000, "KEYS", *keys)
            moved += len(keys)
            if between is not None:
                between()
                between = None
        name = self.id_of(to)
        for each in (to, old, *self.primaries()):
            self.ask(each, "CLUSTER", "SETSLOT", slot, "NODE", name)
        return moved


class RedisSentinels:
    """A primary with a replica, and three sentinels that watch them as the service `mymaster`."""

    SERVICE = "mymaster"

    def __init__(self) -> None:
        self.servers = [RedisServer(fsync="no"), RedisServer(fsync="no")]
        for server in self.servers:
            server.further = {"repl-diskless-sync-delay": "0"}
        self.servers[1].further = {
            **self.servers[1].further,
            "replicaof": f"{LOOPBACK} {self.servers[0].port}",
        }
        self.sentinels = [Sentinel(self.servers[0].port) for _ in range(3)]
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """A URL that names all sentinels."""
        hosts = ",".join(f"{LOOPBACK}:{each.port}" for each in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.SERVICE}"

    def __enter__(self) -> Self:
        try:
            for server in (*self.servers, *self.sentinels):
                self._stack.enter_context(server)
            for sentinel in self.sentinels:
                sentinel.wait_until(sentinel.sees_all)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in (*self.sentinels, *self.servers):
            server.kill()
        self._stack.close()

    def primary(self) -> RedisServer:
        """The server that the sentinels name now."""
        from redis import Redis  # noqa: PLC0415 - as above

        with Redis(LOOPBACK, self.sentinels[0].port, decode_responses=True) as client:
            found = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.SERVICE)
        [primary] = [each for each in self.servers if each.port == int(found[1])]
        return primary


class Sentinel(RedisServer):
    """One sentinel."""

    name = "sentinel"

    def __init__(self, watched: int) -> None:
        super().__init__()
        self.watched = watched

    def launch(self) -> None:
        service = RedisSentinels.SERVICE
        settings = self.folder / "sentinel.conf"
        settings.write_text(
            f"bind {LOOPBACK}\nport {self.port}\ndir {self.folder / 'data'}\n"
            f"sentinel monitor {service} {LOOPBACK} {self.watched} 2\n"
            f"sentinel down-after-milliseconds {service} {SILENCE}\n"
            f"sentinel failover-timeout {service} 5000\n"
        )
        self.spawn_server(str(settings), "--sentinel")

    def sees_all(self) -> bool:
        """Whether it knows of the replica and of both other sentinels."""
        from redis import Redis, RedisError  # noqa: PLC0415 - as above

        try:
            with Redis(LOOPBACK, self.port, decode_responses=True) as client:
                said = client.execute_command("SENTINEL", "MASTERS")
        except RedisError:
            return False
        [state] = said.values() if isinstance(said, dict) else said
        return (
            str(state["num-slaves"]) == "1"
            and str(state["num-other-sentinels"]) == "2"
            and "down" not in str(state["flags"])
        )


def is_taken(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False
