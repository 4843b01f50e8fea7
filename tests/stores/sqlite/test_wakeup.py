"""How sleepers are woken, in this process and in others."""

import asyncio
import time

from mulligan.core.worker import Worker
from tests.contract.builders import ANN, BOB, claim, jobs, names
from tests.store_kit import handle
from tests.stores.sqlite.kit import exists, finished, line_of, rows, sockets_of

SLEEP = """
import asyncio, sys
from mulligan.core.worker import Worker
from mulligan.stores.sqlite import SqliteStore, store as module
from tests.contract.builders import claim, names

async def main(url, name):
    module.LOOK_EVERY = 600.0  # only its socket can wake it
    store = SqliteStore(url)
    await store.open()
    me = Worker(name)
    await claim(store, worker=me)
    print("asleep", flush=True)
    await store.wait(me, 60.0)
    print(*names(await claim(store, worker=me)), flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_sleeper_in_another_process_is_woken_through_its_socket(run, url, path):
    process = run(SLEEP, url, "sleeper")
    assert await line_of(process) == "asleep"
    assert len(sockets_of(path)) == 1
    async with handle(url, time.time) as store:
        await store.enqueue(jobs("a"))
        assert await line_of(process) == "a"
    await finished(process)
    assert not exists(path.with_name("jobs.db-wakeup"))


async def test_a_sleeper_that_was_killed_does_not_keep_a_job_from_others(run, url, monkeypatch):
    monkeypatch.setattr("mulligan.stores.sqlite.store.LOOK_EVERY", 600.0)
    process = run(SLEEP, url, "killed")
    assert await line_of(process) == "asleep"
    process.kill()
    await asyncio.to_thread(process.communicate)
    async with (
        handle(url, time.time) as sleeping,
        handle(url, time.time) as store,
    ):
        await claim(sleeping, worker=BOB)
        waiting = asyncio.create_task(sleeping.wait(BOB, 60.0))
        await store.enqueue(jobs("a"))
        await waiting
        assert names(await claim(sleeping, worker=BOB)) == ["a"]
        assert await rows(store, "SELECT worker FROM sleeper") == [(BOB.id,)]


async def test_without_sockets_a_sleeper_looks_by_itself(url, clock, monkeypatch):
    monkeypatch.delattr("socket.AF_UNIX")
    async with handle(url, clock) as sleeping, handle(url, clock) as store:
        await claim(sleeping, worker=ANN)
        waiting = asyncio.create_task(sleeping.wait(ANN, 60.0))
        await store.enqueue(jobs("a"))
        await waiting


async def test_several_loops_may_share_one_store(url, clock):
    async with handle(url, clock) as store:
        await claim(store, worker=ANN)
        other = asyncio.create_task(
            asyncio.to_thread(asyncio.run, wait_and_claim(store, Worker("thread")))
        )
        waiting = asyncio.create_task(store.wait(ANN, 60.0))
        while await rows(store, "SELECT count(*) FROM sleeper WHERE asleep") != [(2,)]:
            pass
        await store.enqueue(jobs("a", "b"))
        await waiting
        assert len(await other) == 1


async def wait_and_claim(store, worker):
    await claim(store, worker=worker)
    await store.wait(worker, 60.0)
    return names(await claim(store, worker=worker))
