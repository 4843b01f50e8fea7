"""How calls from anywhere reach the store, and how that ends."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mulligan.app.thread_access import ThreadAccess
from mulligan.core.errors import StoreError
from mulligan.core.job import NewJob
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore

TIMEOUT = 30


@pytest.fixture
def access():
    access = ThreadAccess(MemoryStore)
    yield access
    access.close()


def test_who_waits_for_an_answer_when_the_app_is_closed_is_told(access):
    under_way = threading.Event()

    async def endless(store: Store) -> None:
        under_way.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(access.run, lambda: access.acall(endless))
        assert under_way.wait(TIMEOUT)
        access.close()
        with pytest.raises(StoreError, match="was closed"):
            waiting.result(TIMEOUT)


async def test_a_coroutine_that_waits_when_the_app_is_closed_is_told_and_not_cancelled(access):
    under_way = threading.Event()

    async def endless(store: Store) -> None:
        under_way.set()
        await asyncio.Event().wait()

    waiting = asyncio.ensure_future(access.acall(endless))
    await asyncio.to_thread(under_way.wait, TIMEOUT)
    await asyncio.to_thread(access.close)
    with pytest.raises(StoreError, match="was closed"):
        await asyncio.wait_for(waiting, TIMEOUT)


def test_a_call_after_the_end_begins_anew(access):
    async def enqueue(store: Store) -> int:
        await store.enqueue([NewJob("a", "default", "task", b"{}")])
        return len((await store.stats()).lanes)

    assert access.run(lambda: access.acall(enqueue)) == 1
    access.close()
    assert access.run(lambda: access.acall(enqueue)) == 1
