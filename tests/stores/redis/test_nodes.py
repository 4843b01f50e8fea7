"""Which server is connected to, where there are several: tests/failover has them for real."""

from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as LostError

from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.stores import make_store, redact
from mulligan.stores.redis import nodes
from mulligan.stores.redis.doctor import replica_finding
from mulligan.stores.redis.errors import AnswerError
from mulligan.stores.redis.nodes import Nodes
from mulligan.stores.redis.url import read_url

SENTINELS = "redis+sentinel://me:hunter2@a:1,b/mymaster/3"


class Named:
    """Sentinels that name one primary, or say why they do not."""

    answer: ClassVar[Any] = None
    asked: ClassVar[list[Any]] = []

    def __init__(self, hosts: Any, sentinel_kwargs: dict[str, Any]) -> None:
        self.sentinels: list[Any] = []
        self.asked[:] = [hosts, sentinel_kwargs]

    async def discover_master(self, service: str) -> Any:
        assert service == "mymaster"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def named(monkeypatch) -> type[Named]:
    monkeypatch.setattr(nodes, "Sentinel", Named)
    return Named


def test_a_url_names_several_nodes_of_a_cluster():
    read = read_url("redis://me:hunter2@a,b:7001,[::1]:7002/0?prefix=p&client_name=x")
    assert read.hosts == (("a", 6379), ("b", 7001), ("::1", 7002))
    assert read.driver == "redis://me:hunter2@a/0?client_name=x"
    assert read.shown == "redis at a,b:7001,[::1]:7002"


def test_a_url_names_sentinels_their_service_and_the_database():
    read = read_url(f"{SENTINELS}?sentinel_password=s&wait_replicas=1")
    assert read.hosts == (("a", 1), ("b", 26379))
    assert (read.service, read.driver) == ("mymaster", "redis://me:hunter2@a:1/3")
    assert (read.sentinel_username, read.sentinel_password) == (None, "s")
    assert read.shown == "redis service mymaster of the sentinels at a:1,b"
    assert "hunter2" not in redact(SENTINELS)
    assert "=s" not in redact(f"{SENTINELS}?sentinel_password=s")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis+sentinel://a,b", "must name the service that sentinels watch"),
        ("redis+sentinel://a,b/?prefix=x", "must name the service that sentinels watch"),
        ("redis://a:1,b:2,a:1/0", "host a:1 is named twice"),
        ("redis://a:1,b:x/0", "is not a URL; check its host and port"),
        ("redis://a/0?sentinel_password=x", "'sentinel_password' is no option of a redis store"),
    ],
)
def test_a_url_that_names_them_wrongly_is_refused(url, reason):
    with pytest.raises(InvalidError, match=reason):
        make_store(url)


def test_every_scheme_has_its_sentinels():
    for scheme in ("redis", "rediss", "valkey", "valkeys"):
        store: Any = make_store(f"{scheme}+sentinel://a/s?shards=2")
        assert [each.store._server.url.tag for each in store.shards.all] == [
            "{mulligan}",
            "{mulligan:shard1}",
        ]


async def test_the_hosts_are_asked_in_turn_and_one_that_does_not_answer_last(url):
    port = urlsplit(url).port
    asked = Nodes(read_url(f"redis://127.0.0.1:1,127.0.0.1:2,127.0.0.1:{port}/0"))
    connection = await asked.connect()
    await connection.disconnect()
    assert [each[1] for each in asked.known] == [port, 1, 2]


async def test_a_node_that_is_followed_and_gone_is_asked_for_at_the_others(url):
    port = urlsplit(url).port
    asked = Nodes(read_url(f"redis://127.0.0.1:{port}/0"))
    asked.moved(AnswerError("MOVED 1 127.0.0.1:1"))
    assert (asked.holder, asked.is_several) == (("127.0.0.1", 1), True)
    with pytest.raises(LostError):
        await asked.connect()
    assert asked.holder is None
    await (await asked.connect()).disconnect()


def test_the_nodes_of_a_cluster_are_known_from_what_any_of_them_says():
    asked = Nodes(read_url("redis://a:1/0"))
    asked.learn(
        [
            [0, 8000, [b"b", 2, b"id"], [b"", 3, b"id"]],
            [8001, 16383, [b"c", 4, b"id", []], [None, 5, b"id"]],
        ]
    )
    assert asked.known == [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("a", 5)]
    assert asked.holder == ("c", 4)  # of slot 8507


async def test_a_user_who_may_not_ask_for_the_nodes_has_those_of_the_url(store, monkeypatch):
    async def refused(*_: Any) -> Any:
        raise StoreError("NOPERM")

    monkeypatch.setattr(store._server, "command", refused)
    await store._server.learn_nodes()
    assert store._server.nodes.in_cluster

    async def away(*_: Any) -> Any:
        raise StoreUnavailableError("gone")

    monkeypatch.setattr(store._server, "command", away)
    with pytest.raises(StoreUnavailableError):
        await store._server.learn_nodes()


async def test_sentinels_are_asked_by_their_own_names_and_passwords(named, url):
    named.answer = "127.0.0.1", urlsplit(url).port
    asked = Nodes(read_url("redis+sentinel://a:1,b/mymaster?sentinel_password=s"))
    await (await asked.connect()).disconnect()
    hosts, options = named.asked
    assert hosts == [("a", 1), ("b", 26379)]
    assert (options["username"], options["password"], options["ssl"]) == (None, "s", False)
    assert asked.holder == named.answer


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (MasterNotFoundError("no"), StoreUnavailableError, "no sentinel answers that knows"),
        (AuthenticationError("no"), StoreError, "give its own by sentinel_username="),
    ],
)
async def test_what_sentinels_do_not_say_is_said(named, answer, kind, reason):
    named.answer = answer
    with pytest.raises(kind, match=reason):
        await Nodes(read_url("redis+sentinel://a/mymaster")).connect()


async def test_after_a_sentinel_that_resets_another_one_is_asked_first(named):
    named.answer = RuntimeError("the handler is closed")  # uvloop's
    asked = Nodes(read_url("redis+sentinel://a,b/mymaster"))
    for first in ("a", "b"):
        with pytest.raises(LostError):
            await asked.connect()
        assert named.asked[0][0] == (first, 26379)


async def test_a_primary_that_was_demoted_a_moment_ago_is_not_used(named, url, monkeypatch):
    named.answer = "127.0.0.1", urlsplit(url).port

    async def replica(_: Any) -> Any:
        return [b"slave"]

    monkeypatch.setattr("redis.asyncio.Connection.read_response", replica)
    with pytest.raises(StoreUnavailableError, match="is failing over"):
        await Nodes(read_url("redis+sentinel://a/mymaster")).connect()


@pytest.mark.parametrize(
    ("waited_for", "connected", "level", "words"),
    [
        (0, 0, "warn", "0 replicas: its jobs wait while it is away"),
        (0, 1, "warn", "1 replica, and wait_replicas is 0: a failover loses"),
        (1, 1, "ok", "a failover loses nothing"),
        (2, 1, "bad", "wait_replicas is 2: no write counts as done"),
    ],
)
def test_doctor_says_what_a_failover_loses(waited_for, connected, level, words):
    found = replica_finding(waited_for, connected)
    assert found.level == level
    assert words in found.sentence
