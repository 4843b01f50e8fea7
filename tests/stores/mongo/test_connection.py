"""Errors and the clock."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from urllib.parse import urlsplit

import pymongo
import pytest

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.record import Record, Recording
from mulligan.stores import make_store
from mulligan.stores.mongo import url
from mulligan.stores.mongo.connection import Connection
from mulligan.stores.mongo.url import parse_url
from tests.chaos.proxy import Proxy
from tests.chaos.stand import through
from tests.contract.builders import begin, claim, job
from tests.store_kit import handle


async def test_errors_do_not_show_the_password(monkeypatch):
    async def lose(*_, **__):
        raise pymongo.errors.AutoReconnect(
            "ann:s@cret (s%40cret) lost the connection (configured timeouts: connectTimeoutMS: 9)"
        )

    monkeypatch.setattr("mulligan.stores.mongo.schema.check_layout", lose)
    store = make_store("mongodb://ann:s%40cret@127.0.0.1:9/db")
    with pytest.raises(StoreUnavailableError) as caught:
        await store.open()
    await store.close()
    said = "127.0.0.1:9 cannot be reached: ann:*** (***) lost the connection"
    assert str(caught.value).endswith(said)
    assert "cret" not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_the_servers_time_decides_where_no_clock_is_injected(store_url):
    store = make_store(store_url)
    await store.open()
    try:
        before = (await store.stats()).now
        await store.enqueue([job("a", delay=30.0)])
        claimed = await claim(store)
        assert claimed.again_in is not None
        assert 0 < claimed.again_in <= 30
        assert abs(before - datetime.now(UTC).timestamp()) < 60
    finally:
        await store.close()


@pytest.fixture
def muted(store_url):
    """A proxy before the server, and the URL that leads there."""
    with Proxy(urlsplit(store_url).port) as proxy:
        yield proxy, through(store_url, proxy.port)


async def test_after_a_network_that_swallows_all_no_operation_waits_for_what_it_lost(
    muted, clock, monkeypatch
):
    """Not one on a connection that another has left there idle either."""
    short = dict.fromkeys(("socketTimeoutMS", "maxIdleTimeMS"), "300")
    monkeypatch.setattr(url, "DEFAULTS", url.DEFAULTS | short)
    proxy, address = muted
    async with handle(address, clock) as store:
        await asyncio.gather(*(store.get(f"a{n}") for n in range(20)))
        proxy.swallows = True
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            await store.enqueue([job("a")])
        proxy.swallows = False
        answers = await asyncio.gather(*(store.enqueue([job(f"a{n}")]) for n in range(20)))
        assert all(each.created for [each] in answers)


async def test_what_an_attempt_records_is_sent_again_when_a_network_has_swallowed_it(
    muted, clock, monkeypatch
):
    """All that the worker's other attempts record waits for the answer."""
    monkeypatch.setattr(url, "DEFAULTS", url.DEFAULTS | {"socketTimeoutMS": "300"})
    proxy, address = muted
    async with handle(address, clock) as store:
        [claimed] = await begin(store, job("a"))
        recording = Recording(claimed.lease, (Record("step", 1, b"1", "one"),))
        proxy.swallows = True
        with pytest.raises(StoreUnavailableError):
            await store.record([recording])
        proxy.swallows = False
        assert await store.record([recording]) == ["recorded"]
        assert [each.name for each in await store.records("a")] == ["one"]


class LateServer:
    """A server whose clock is 1,000 s ahead, and how long questions and answers take."""

    def __init__(self, *trips: tuple[float, float]) -> None:
        self.trips = list(trips)
        self.at = 0.0
        self.admin = self

    async def command(self, _name: str) -> dict[str, datetime]:
        there, back = self.trips.pop(0) if len(self.trips) > 1 else self.trips[0]
        self.at += there
        answer = {"localTime": datetime.fromtimestamp(1000 + self.at, UTC)}
        self.at += back
        return answer


async def error_of_the_clock(monkeypatch, *trips: tuple[float, float]) -> tuple[float, float]:
    """By how many seconds the store's clock is wrong after these trips, and may be as it thinks."""
    connection = Connection(parse_url("mongodb://127.0.0.1:9/db"), None)
    await connection.client.close()
    server = LateServer(*trips)
    monkeypatch.setattr(connection, "client", server)
    clocks = SimpleNamespace(monotonic=lambda: server.at, time=lambda: 0.0)
    monkeypatch.setattr("mulligan.stores.mongo.connection.time", clocks)
    now = await connection.now()
    return now / 1e6 - (1000 + server.at), connection.doubt / 1e6


async def test_the_clock_is_right_though_answers_come_late_at_first(monkeypatch):
    late, soon = (0.0, 2.5), (0.001, 0.001)
    error, doubt = await error_of_the_clock(monkeypatch, late, late, late, soon)
    assert abs(error) <= doubt <= 0.002


@pytest.mark.parametrize("trip", [(0.0, 2.5), (2.5, 0.0), (1.25, 1.25)])
async def test_the_clock_knows_by_how_much_it_may_be_wrong(monkeypatch, trip):
    error, doubt = await error_of_the_clock(monkeypatch, trip)
    assert abs(error) <= doubt + 1e-6
    assert doubt <= 1.251


@pytest.mark.parametrize(
    "error",
    [
        pymongo.errors.NetworkTimeout("timed out"),
        pymongo.errors.ProtocolError("Got response id 7 but expected 8"),
    ],
)
async def test_a_reply_that_was_lost_or_cut_means_that_the_server_is_away(
    store, monkeypatch, error
):
    async def lose(*_, **__):
        raise error

    monkeypatch.setattr("mulligan.stores.mongo.record.record", lose)
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        await store.record([])
