"""Wake-ups on MongoDB: change streams, or a look at the marks."""

import asyncio
from contextlib import suppress

import pymongo

from tests.contract.builders import ANN, ANYONE, FRESH, claim, jobs, names
from tests.stores.mongo.steps import plain


async def test_a_sleeping_worker_is_woken_by_a_plain_insert(store, tasks, clock):
    await claim(store, ANYONE)
    waiting = asyncio.create_task(store.wait(ANN, 30))
    await asyncio.to_thread(tasks.insert_one, plain(clock, "a"))
    await asyncio.wait_for(waiting, 10)
    assert names(await claim(store, ANYONE)) == ["a"]


class Stream:
    """A change stream as a replica set would give it."""

    def __init__(self, *workers):
        self.changes = [{"documentKey": {"_id": each}} for each in workers]

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def __aiter__(self):
        for change in self.changes:
            yield change


async def test_a_change_stream_wakes_a_worker_that_another_process_rang(
    store, another, monkeypatch
):
    await claim(store, FRESH)
    heard = asyncio.Event()

    async def watch(_):
        await heard.wait()
        return Stream("somebody else", ANN.id)

    monkeypatch.setattr(store._connection.sleepers, "watch", watch)
    monkeypatch.setattr("mulligan.stores.mongo.wakeup.STREAMED", 3600)
    store._wakeup.local.streaming = True
    waiting = asyncio.create_task(store.wait(ANN, 30))
    await another.enqueue(jobs("a"))
    heard.set()
    await asyncio.wait_for(waiting, 10)
    assert names(await claim(store, FRESH)) == ["a"]


async def test_a_server_that_refuses_change_streams_is_looked_at_instead(
    store, another, monkeypatch
):
    await claim(store, FRESH)

    async def watch(_):
        raise pymongo.errors.OperationFailure("no change streams here")

    monkeypatch.setattr(store._connection.sleepers, "watch", watch)
    monkeypatch.setattr("mulligan.stores.mongo.wakeup.STREAMED", 0.01)
    store._wakeup.local.streaming = True
    waiting = asyncio.create_task(store.wait(ANN, 30))
    await another.enqueue(jobs("a"))
    await asyncio.wait_for(waiting, 10)
    assert not store._wakeup.local.streaming


async def test_a_wait_ends_though_the_driver_has_swallowed_that_its_time_was_up(store, monkeypatch):
    async def swallowing(worker: str) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)

    monkeypatch.setattr(store._wakeup.local, "notice", swallowing)
    await store.wait(ANN, 0.001)
