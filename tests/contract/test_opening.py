"""Opening and closing: many at once, and nothing that was written depends on either."""

import asyncio

import pytest

from mulligan.core.errors import InvalidError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped
from mulligan.stores import make_store, redact
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import ANN, BOB, again, begin, claim, done, job, jobs, names, start
from tests.core.test_redaction import grows_with_its_length
from tests.store_kit import handle


async def test_many_clients_may_open_a_new_store_at_once(store_url, clock):
    stores = [make_store(store_url, clock=clock) for _ in range(5)]
    await asyncio.gather(*(each.open() for each in stores))
    assert await stores[0].enqueue(jobs("a")) == [("a", True)]
    await asyncio.gather(*(each.close() for each in stores))


async def test_what_was_written_is_there_after_closing(store_url, clock):
    if store_url.startswith("memory:"):
        pytest.skip("memory lives as long as the object")
    async with handle(store_url, clock) as store:
        first, second = await begin(store, *jobs("a", "b"))
        await store.commit([again(first, delay=5.0, message="no luck")])
        await store.enqueue([job("later", delay=5.0, unique_key="k")])
        await store.configure("default", QueueSettings(Capped(4)))
        await store.pause("mail", paused=True)
    clock.advance(5)
    async with handle(store_url, clock) as store:
        assert await store.commit([done(second)]) == ["written"]
        assert await store.commit([again(first)]) == ["already"]
        assert await store.enqueue([job("c", unique_key="k")]) == [("later", False)]
        assert [each.message for each in await store.history("a")] == ["no luck"]
        facts = await store.facts()
        assert facts.queues == {"default": QueueSettings(Capped(4))}
        assert facts.paused == {"mail"}
        assert sorted(names(await claim(store, demand=5))) == ["a", "later"]


async def test_a_worker_that_dies_with_its_connection_is_reclaimed_by_another(store_url, clock):
    if store_url.startswith("memory:"):
        pytest.skip("memory lives as long as the object")
    async with handle(store_url, clock) as store:
        await begin(store, job("a"))
    clock.advance(ANN.lease)
    async with handle(store_url, clock) as store:
        [reclaimed] = await store.reclaim(10, BOB)
        await store.commit([again(reclaimed)])
        assert (await start(store)).attempt == 2


async def test_the_url_names_the_engine():
    assert isinstance(make_store("memory://"), MemoryStore)
    with pytest.raises(
        InvalidError, match=r"ftp://elsewhere.*does not begin with one of memory://"
    ):
        make_store("ftp://elsewhere")


@pytest.mark.parametrize("piece", ["&pass", "&password=", "?a", "a@", ":", "pass", "//"])
def test_hiding_secrets_takes_time_in_proportion_to_the_url(piece):
    grows_with_its_length(lambda text: redact(f"redis://host/?{text}"), piece)


async def test_a_password_is_not_shown():
    with pytest.raises(InvalidError) as refused:
        make_store("ftp://me:secret@elsewhere")
    assert "secret" not in str(refused.value)
    assert redact("redis://me:secret@host:1/0") == "redis://me:***@host:1/0"
    assert redact("redis://host:1/0") == "redis://host:1/0"
    assert redact("me:secret@host") == "me:***@host"
    assert redact("postgresql://who@host:1/db") == "postgresql://***@host:1/db"
