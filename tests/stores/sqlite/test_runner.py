"""Processes, threads and forks on one file."""

import asyncio
import os
import threading
from collections import Counter

import pytest

from mulligan.core.errors import StoreError
from mulligan.core.lane import Lane, Priority
from mulligan.core.page import Selection
from mulligan.core.worker import Worker
from mulligan.stores.sqlite import runner
from tests.contract.builders import claim, jobs
from tests.store_kit import handle
from tests.stores.sqlite.kit import finished, line_of

WORK = """
import asyncio, sys
from mulligan.core.worker import Worker
from mulligan.stores.sqlite import SqliteStore
from tests.contract.builders import claim, done, jobs

async def main(url, name):
    store = SqliteStore(url)
    await store.open()
    print("ready", flush=True)
    sys.stdin.readline()
    me = Worker(name)
    for batch in range(10):
        await store.enqueue(jobs(*(f"{name}-{batch}-{i}" for i in range(20))))
        claimed = await claim(store, demand=15, worker=me)
        verdicts = await store.commit([done(each) for each in claimed.claims])
        for each, verdict in zip(claimed.claims, verdicts):
            print(each.id, each.token, verdict)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_share_a_file_and_never_a_job(run, url):
    processes = [run(WORK, url, f"w{i}") for i in range(3)]
    assert [await line_of(process) for process in processes] == ["ready"] * 3
    output = "".join(await asyncio.gather(*(finished(process) for process in processes)))
    lines = [line.split() for line in output.splitlines()]
    assert len(lines) == 450
    assert len({name for name, *_ in lines}) == 450
    assert {(int(token) % 4096, verdict) for _, token, verdict in lines} == {(1, "written")}


def test_two_threads_that_fork_at_once_take_turns(monkeypatch):
    held: Counter[tuple[str, int]] = Counter()
    came = threading.Event()
    turn = threading.Lock()

    class Turn:
        """The lock, which tells when somebody has to wait for it."""

        def acquire(self):
            if not turn.acquire(blocking=False):
                came.set()
                turn.acquire()

        def release(self):
            turn.release()

    class Runner:
        def before_fork(self):
            held["held", threading.get_ident()] += 1
            if not second.ident:  # the other comes when the first of two files is held
                second.start()
                came.wait()

        def after_fork(self):
            held["let go", threading.get_ident()] += 1

    def fork():
        runner._before_fork()
        runner._after_fork_in_parent()
        came.set()

    second = threading.Thread(target=fork)
    monkeypatch.setattr(runner, "_fork", Turn(), raising=False)
    monkeypatch.setattr(runner, "_FILES", [Runner(), Runner()])
    fork()
    second.join()
    assert list(held.values()) == [2, 2, 2, 2]


async def test_after_a_fork_each_side_has_a_connection_of_its_own(store):
    await store.enqueue(jobs("before"))
    await claim(store, Lane("other", "default", Priority.NORMAL))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.set_event_loop(None)
            answer = asyncio.new_event_loop().run_until_complete(in_child(store))
            os.write(write, answer.encode())
        finally:
            os._exit(0)
    os.close(write)
    assert await store.enqueue(jobs("parent")) == [("parent", True)]
    with os.fdopen(read) as pipe:
        assert await asyncio.to_thread(pipe.read) == "before created"
    await asyncio.to_thread(os.waitpid, child, 0)
    assert sorted(each.id for each in (await store.page(Selection(), 10)).jobs) == [
        "before",
        "child",
        "parent",
    ]


async def in_child(store):
    seen = await store.get("before")
    [answer] = await store.enqueue(jobs("child"))
    await claim(store, Lane("other", "default", Priority.NORMAL), worker=Worker("child"))
    await store.close()
    return f"{seen.id} {'created' if answer.created else 'not created'}"


async def test_a_store_in_memory_is_not_shared_with_a_fork(clock, monkeypatch):
    async with handle("sqlite://", clock) as store:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(StoreError, match="is not shared with a forked process"):
            await store.facts()
