"""A failover to a replica, and a cluster whose slot moves."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import pytest
from redis.asyncio import Redis

from mulligan import Mulligan, Settings
from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.stores.redis import RedisStore
from mulligan.stores.redis.errors import AnswerError, explain
from mulligan.stores.redis.url import read_url
from mulligan.stores.redis.wire import Wire
from tests.chaos.proxy import Proxy
from tests.contract.builders import ANN, claim, done, jobs, names
from tests.databases import RedisServer
from tests.databases._server import LOOPBACK, free_port
from tests.engine.test_on_every_store import working

SLOTS = 16_384
# Nodes of a cluster talk to each other at the port that is so much higher.
BUS = 10_000


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def until_says(client: Redis, section: str, **expected: object) -> None:
    """Wait until the server says this of itself."""
    while not expected.items() <= (await client.info(section)).items():
        pass


class Pair:
    """A primary, its replica, and an address that leads to one of them."""

    def __init__(self, proxy: Proxy, first: RedisServer, second: RedisServer) -> None:
        self.proxy = proxy
        self.primary, self.replica = first, second
        self.url = f"redis://{LOOPBACK}:{proxy.port}/0"

    async def follow(self) -> None:
        """Have the replica follow the primary, and return when it does."""
        async with client_of(self.replica) as replica, client_of(self.primary) as primary:
            await replica.execute_command("REPLICAOF", LOOPBACK, str(self.primary.port))
            await until_says(replica, "replication", role="slave", master_link_status="up")
            await until_says(primary, "replication", connected_slaves=1)

    async def fail_over(self) -> None:
        """Swap the two, as is done before maintenance; the address follows a moment later."""
        async with client_of(self.primary) as old:
            await old.execute_command("FAILOVER")
            await until_says(old, "replication", role="slave", master_link_status="up")
        self.primary, self.replica = self.replica, self.primary

    def lead_to_primary(self) -> None:
        self.proxy.to = self.primary.port


def client_of(server: RedisServer) -> Redis:
    return Redis.from_url(server.url, decode_responses=True)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    first, second = RedisServer(), RedisServer()
    first.further = second.further = {"repl-diskless-sync-delay": "0"}
    with first, second, Proxy(first.port) as proxy:
        made = Pair(proxy, first, second)
        await made.follow()
        yield made
        for server in (first, second):
            server.kill()  # told to end, a primary would wait for its replica


async def test_after_a_planned_failover_the_first_call_reaches_the_new_primary(pair):
    async with opened(pair.url) as store, opened(pair.url) as sleeping:
        await asyncio.gather(*(store.enqueue(jobs(f"a{number}")) for number in range(9)))
        await claim(sleeping, demand=9)
        sleeper = asyncio.create_task(sleeping.wait(ANN, 60.0))
        async with client_of(pair.primary) as primary:
            await until_says(primary, "clients", blocked_clients=2)  # the inbox is one
        await pair.fail_over()
        await sleeper
        with pytest.raises(StoreUnavailableError, match="is a replica that takes no writes"):
            await store.enqueue(jobs("b"))
        pair.lead_to_primary()
        for number in range(9):
            assert (await store.enqueue(jobs(f"c{number}")))[0].created
        claimed = await claim(sleeping, demand=20)
        assert names(claimed) == [f"c{number}" for number in range(9)]
        assert await sleeping.commit([done(each) for each in claimed.claims]) == ["written"] * 9


async def test_a_store_that_was_not_used_during_a_failover_does_not_notice_it(pair):
    async with opened(pair.url) as store:
        await asyncio.gather(*(store.enqueue(jobs(f"a{number}")) for number in range(5)))
        await pair.fail_over()
        pair.lead_to_primary()
        calls = (store.enqueue(jobs(f"b{number}")) for number in range(5))
        assert all(enqueued.created for [enqueued] in await asyncio.gather(*calls))


async def test_a_worker_goes_on_after_a_planned_failover(pair):
    app = Mulligan(pair.url, settings=Settings(lease=4.0, beat=0.2))

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with working(app):
        assert await (await double.aenqueue(1)).aresult(timeout=30) == 2
        await pair.fail_over()
        pair.lead_to_primary()
        assert await (await double.aenqueue(2)).aresult(timeout=30) == 4
    app.close()


async def test_nothing_that_replicas_acknowledged_is_lost_when_the_primary_dies(pair):
    acknowledged = []
    async with opened(f"{pair.url}?wait_replicas=1&wait_timeout=2") as store:
        for number in range(50):
            await store.enqueue(jobs(f"a{number}"))
            acknowledged.append(f"a{number}")
        dying = asyncio.gather(
            *(store.enqueue(jobs(f"b{number}")) for number in range(20)), return_exceptions=True
        )
        await asyncio.sleep(0)
        await asyncio.to_thread(pair.primary.kill)
        for number, answer in enumerate(await dying):
            if not isinstance(answer, StoreError):
                acknowledged.append(f"b{number}")
        async with client_of(pair.replica) as replica:
            await replica.execute_command("REPLICAOF", "NO", "ONE")
        pair.primary, pair.replica = pair.replica, pair.primary
        pair.lead_to_primary()
        with pytest.raises(StoreUnavailableError, match="0 of 1 replicas"):
            await store.enqueue(jobs("alone"))
        await asyncio.to_thread(pair.replica.start)
        await pair.follow()
        await store.enqueue(jobs("together"))
        found = names(await claim(store, demand=100))
        assert set(acknowledged) | {"together"} <= set(found)
        assert len(set(found)) == len(found)


async def test_replicas_that_are_waited_for_on_a_demoted_server_are_a_failover(pair):
    async with opened(f"{pair.url}?wait_replicas=1&wait_timeout=2") as store:
        await store.enqueue(jobs("a"))
        await pair.fail_over()
        with pytest.raises(StoreUnavailableError, match="is a replica"):
            await store.leave(ANN)  # which has nothing to write
        pair.lead_to_primary()
        await store.leave(ANN)


# -- a cluster -------------------------------------------------------------------------------


class Cluster:
    """Three nodes that share the slots out among them."""

    def __init__(self, servers: list[RedisServer], clients: list[Redis]) -> None:
        self.servers, self.clients = servers, clients
        self.slot = 0

    async def form(self) -> None:
        share = -(-SLOTS // len(self.servers))
        for number, client in enumerate(self.clients):
            slots = range(SLOTS)[number * share : (number + 1) * share]
            await client.execute_command("CLUSTER", "ADDSLOTS", *slots)
            for server in self.servers:
                await client.execute_command("CLUSTER", "MEET", LOOPBACK, server.port)
        await self.until_it_serves()
        self.slot = int(await self.clients[0].execute_command("CLUSTER", "KEYSLOT", "{mulligan}"))

    async def until_it_serves(self) -> None:
        """Return when every node knows of the others, and that all is well."""
        for client in self.clients:
            said = ""
            while not ("cluster_state:ok" in said and "cluster_known_nodes:3" in said):
                said = str(await client.execute_command("CLUSTER", "INFO"))

    @property
    def holder(self) -> int:
        """Which node had the slot to begin with."""
        return self.slot // -(-SLOTS // len(self.servers))

    async def id_of(self, node: int) -> str:
        return str(await self.clients[node].execute_command("CLUSTER", "MYID"))

    async def begin_to_move(self, old: int, new: int) -> None:
        slot = ("CLUSTER", "SETSLOT", self.slot)
        await self.clients[new].execute_command(*slot, "IMPORTING", await self.id_of(old))
        await self.clients[old].execute_command(*slot, "MIGRATING", await self.id_of(new))

    async def finish_moving(self, old: int, new: int) -> None:
        words = ("CLUSTER", "GETKEYSINSLOT", self.slot, 10_000)
        keys = await self.clients[old].execute_command(*words)
        to = (LOOPBACK, self.servers[new].port, "", 0, 5000, "KEYS")
        await self.clients[old].execute_command("MIGRATE", *to, *keys)
        id_ = await self.id_of(new)
        for node in (new, old):
            await self.clients[node].execute_command("CLUSTER", "SETSLOT", self.slot, "NODE", id_)


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


@pytest.fixture
def servers() -> Iterator[list[RedisServer]]:
    with ExitStack() as stack:
        made = []
        for _ in range(3):
            server = RedisServer(fsync="no")
            while is_taken(server.port + BUS):
                server.port = free_port()
            server.further = {"cluster-enabled": "yes", "cluster-node-timeout": "5000"}
            made.append(stack.enter_context(server))
        yield made
        for server in made:
            server.kill()


@pytest.fixture
async def cluster(servers) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(server)) for server in servers]
        made = Cluster(servers, clients)
        await made.form()
        yield made


async def test_a_node_that_does_not_hold_the_slot_leads_to_the_one_that_does(cluster):
    for server in cluster.servers:
        async with opened(server.url) as store:
            await store.enqueue(jobs(f"by-{server.port}"))
    async with opened(cluster.servers[cluster.holder].url) as store:
        expected = [f"by-{server.port}" for server in cluster.servers]
        assert names(await claim(store, demand=9)) == expected


async def test_a_slot_that_moves_is_followed_and_no_script_runs_on_half_of_the_keys(cluster):
    old, new = cluster.holder, (cluster.holder + 1) % 3
    server = cluster.servers[old]
    async with opened(server.url) as store:
        await store.enqueue(jobs("a", "b"))
        [first] = (await claim(store)).claims
        await cluster.begin_to_move(old, new)
        said = rf"redis at {LOOPBACK}:{server.port} is giving the cluster's slot"
        with pytest.raises(StoreUnavailableError, match=rf"{said} .*:{cluster.servers[new].port}"):
            await store.enqueue(jobs("c"))
        await cluster.finish_moving(old, new)
        await store.enqueue(jobs("c"))
        assert await store.commit([done(first)]) == ["written"]
        assert names(await claim(store, demand=9)) == ["b", "c"]
        await cluster.begin_to_move(new, old)
        await cluster.finish_moving(new, old)
        await store.enqueue(jobs("d"))
        assert names(await claim(store)) == ["d"]


async def test_a_worker_follows_a_slot_that_moves(cluster):
    old, new = cluster.holder, (cluster.holder + 1) % 3
    app = Mulligan(cluster.servers[old].url, settings=Settings(lease=4.0, beat=0.2))

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with working(app):
        assert await (await double.aenqueue(1)).aresult(timeout=30) == 2
        await cluster.begin_to_move(old, new)
        await cluster.finish_moving(old, new)
        assert await (await double.aenqueue(2)).aresult(timeout=30) == 4
    app.close()


async def test_a_node_that_was_followed_and_is_gone_is_asked_for_at_the_urls_again(cluster):
    old, new = cluster.holder, (cluster.holder + 1) % 3
    async with opened(cluster.servers[new].url) as store:
        await store.enqueue(jobs("a"))
        cluster.servers[old].kill()
        await cluster.clients[old].aclose()
        with pytest.raises(StoreUnavailableError):
            await store.enqueue(jobs("b"))
        cluster.servers[old].start()
        await cluster.until_it_serves()
        await cluster.begin_to_move(old, new)
        await cluster.finish_moving(old, new)
        await store.enqueue(jobs("b"))


# -- what the driver and servers say ---------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "MOVED 8507 10.0.0.2:7002",
            "gave the cluster's slot of the keys {mulligan}:* to the node",
        ),
        ("MOVED 8507 10.0.0.2:7002", "at 10.0.0.2:7002"),
        ("MOVED 8507 :7002", "at its own host:7002"),
        ("MOVED 8507 ?:7002", "at its own host:7002"),
        ("MOVED 8507 ::1:7002", "at ::1:7002"),
        ("ASK 8507 10.0.0.2:7002", "is giving the cluster's slot"),
        ("TRYAGAIN Multiple keys request during rehashing", "cannot answer now: TRYAGAIN Multiple"),
        ("CLUSTERDOWN The cluster is down", "cannot answer now: CLUSTERDOWN"),
        ("MASTERDOWN Link with MASTER is down", "cannot answer now: MASTERDOWN"),
        ("LOADING Redis is loading the dataset in memory", "cannot answer now: LOADING"),
        ("UNBLOCKED force unblock from blocking operation", "is a replica"),
    ],
)
def test_an_answer_that_another_may_give_says_what_happened(said, sentence):
    error = explain(AnswerError(said), read_url("redis://127.0.0.1:1/0"))
    assert type(error) is StoreUnavailableError
    assert sentence in str(error)


async def test_a_driver_that_keeps_its_connections_otherwise_is_named():
    with pytest.raises(StoreError, match=r"redis-py \d.* pip install 'mulligan\[redis\]'"):
        Wire(object())  # type: ignore[arg-type]
