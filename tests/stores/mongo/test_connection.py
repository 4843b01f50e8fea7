"""Errors and the clock."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pymongo
import pytest

from mulligan.core.errors import StoreUnavailableError
from mulligan.stores import make_store
from mulligan.stores.mongo.connection import Connection
from mulligan.stores.mongo.url import parse_url
from tests.contract.builders import claim, job


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
