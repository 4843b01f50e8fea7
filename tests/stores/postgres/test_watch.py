"""Telling those who wait for jobs to end, without another way to the server and back."""

import asyncio
from functools import partial

import pytest

from mulligan.stores.postgres.url import ended_key
from tests.contract.builders import begin, done, job
from tests.stores.postgres.kit import connected, opened, schema_of, waited_for


async def test_a_commit_tells_by_itself_if_somebody_waited_at_the_last_one(store, url, monkeypatch):
    told: asyncio.Queue[str] = asyncio.Queue()
    async with opened(url) as other:
        for name in ("a", "b"):
            [claimed] = await begin(store, job(name))
            watch = await other.watch(name, partial(told.put_nowait, name))
            await store.commit([done(claimed)])
            async with asyncio.timeout(10):
                assert await told.get() == name
            watch.close()
            # from now on nothing is told by a statement of its own
            monkeypatch.setattr(store._watcher, "_to_tell", ())


async def test_a_lock_that_anybody_can_hold_delays_nobody_who_waits_for_a_job(store, url):
    """Where committers cannot be let know that somebody waits, callers look by themselves."""
    [claimed] = await begin(store, job("a"))
    key = ended_key(schema_of(url))
    with connected(url) as anybody:
        anybody.execute("SELECT pg_advisory_lock(%s)", (key,))
        watch = await store.watch("a", lambda: None)
        assert not watch.is_told
        assert await store.commit([done(claimed)]) == ["written"]
        anybody.execute("SELECT pg_advisory_unlock(%s)", (key,))
        await waited_for(lambda: store._watcher._is_told)
        later = await store.watch("b", lambda: None)
        assert later.is_told
        for each in (watch, later):
            each.close()


GARBAGE = ["garbage", "5", '[{"a":1}]', '["a", 1]', "[" * 7000, "", "\u2603"]


@pytest.mark.parametrize("payload", GARBAGE)
async def test_what_is_no_list_of_ids_is_not_listened_to(store, url, payload, caplog):
    told: asyncio.Queue[str] = asyncio.Queue()
    [claimed] = await begin(store, job("a"))
    watch = await store.watch("a", partial(told.put_nowait, "a"))
    channel = f"mulligan_ended_{ended_key(schema_of(url))}"
    with connected(url) as anybody:
        for sent in (payload, '["a"]'):
            anybody.execute("SELECT pg_notify(%s, %s)", (channel, sent))
        assert await told.get() == "a"
        assert told.empty()
        watch.close()
        await store.commit([done(claimed)])
    assert caplog.records == []
