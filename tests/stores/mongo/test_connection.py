"""Errors and the clock."""

from datetime import UTC, datetime

import pymongo
import pytest

from mulligan.core.errors import StoreUnavailableError
from mulligan.stores import make_store
from tests.contract.making import claim, job


async def test_errors_do_not_show_the_password(monkeypatch):
    async def lose(*_, **__):
        raise pymongo.errors.AutoReconnect("ann:s@cret (s%40cret) lost the connection")

    monkeypatch.setattr("mulligan.stores.mongo.schema.check_layout", lose)
    store = make_store("mongodb://ann:s%40cret@127.0.0.1:9/db")
    with pytest.raises(StoreUnavailableError) as caught:
        await store.open()
    await store.close()
    assert "127.0.0.1:9 cannot be reached: ann:***" in str(caught.value)
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
