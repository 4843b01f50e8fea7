"""Fixtures of the tests of the MongoDB store."""

from urllib.parse import urlsplit

import pymongo
import pytest

from mulligan.stores.mongo import bulk_write, connection
from tests.reuse import reused_url
from tests.store_kit import fresh_url, handle, require


@pytest.fixture
async def store_url(request, tmp_path):
    """The URL of an empty store; new if the test opens it itself."""
    require("mongo")
    reuse = "store" in request.fixturenames
    async with reused_url("mongo") if reuse else fresh_url("mongo", tmp_path) as url:
        yield url


@pytest.fixture
def database(store_url):
    """The same database as another program sees it."""
    connected: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(
        store_url, tz_aware=True
    )
    with connected as client:
        yield client[urlsplit(store_url).path.strip("/")]


@pytest.fixture
def tasks(database):
    return database["tasks"]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr("mulligan.stores.mongo.outbox.PART", 5000)


@pytest.fixture
def between(monkeypatch):
    """Have something happen right after the next write to the tasks, or right before it."""

    def happens(after=None, *, before=None):
        steps = [before, after]

        async def step():
            if steps and (happening := steps.pop(0)):
                await happening()

        async def write(collection, each):
            if collection.name != "tasks":
                return await bulk_write.write(collection, each)
            await step()
            reply = await bulk_write.write(collection, each)
            await step()
            return reply

        monkeypatch.setattr(connection, "write", write)

    return happens


@pytest.fixture
async def moving(store_url, clock):
    async with handle(store_url + "&move_dead=true", clock) as opened:
        yield opened


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """What collided is sent again without a pause."""
    monkeypatch.setattr(bulk_write, "PAUSE", 0)
