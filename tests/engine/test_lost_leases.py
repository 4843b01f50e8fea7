"""How a lost lease is logged, and a cancel, by which a lease is lost too."""

import logging

import pytest

from mulligan.core.errors import StoreUnavailableError
from mulligan.engine import lost_leases
from mulligan.engine.lost_leases import LostLeases
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import jobs, start


@pytest.fixture
async def store():
    made = MemoryStore()
    await made.enqueue(jobs("a", "b"))
    return made


async def test_a_lease_that_another_worker_took_is_logged_as_lost(store, caplog):
    claimed, lost = await start(store), LostLeases(store)
    lost.add(claimed.lease, "its attempt is stopped", {"job": claimed.id})
    await lost.logged()
    [said] = caplog.records
    assert said.levelno == logging.WARNING
    assert said.getMessage() == (
        f"job a: its lease (token {claimed.token}) is no longer held; its attempt is stopped"
    )


async def test_a_store_that_is_away_does_not_hide_a_lost_lease(store, caplog, monkeypatch):
    async def away(_: str) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(store, "get", away)
    lost = LostLeases(store)
    lost.add((await start(store)).lease, "its attempt is stopped", {})
    await lost.logged()
    assert "is no longer held" in caplog.text


async def test_each_canceled_attempt_is_logged_once(store, caplog, monkeypatch):
    monkeypatch.setattr(lost_leases, "REMEMBERED", 1)
    caplog.set_level(logging.INFO)
    first, second = await start(store), await start(store)
    await store.cancel(["a", "b"], "")
    lost = LostLeases(store)
    for claim in (first, first, second):
        lost.add(claim.lease, "its attempt is stopped", {})
    await lost.logged()
    assert [each.getMessage() for each in caplog.records] == [
        "job a: it was canceled: no reason was given; its attempt is stopped",
        "job b: it was canceled: no reason was given; its attempt is stopped",
    ]
