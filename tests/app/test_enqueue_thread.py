"""Coroutines enqueue into an embedded store by a thread, which is there only as long as needed."""

import asyncio
import gc
import os
import threading
import weakref

import pytest

from mulligan import Mulligan
from mulligan.app.enqueue_thread import EnqueueThread
from mulligan.core.job import Enqueued, NewJob

JOB = NewJob("a", "default", "task", b"{}")
CREATED = [Enqueued("a", created=True)]
NAME = "mulligan-enqueue"


def created(jobs):
    assert threading.current_thread().name == NAME
    return [Enqueued(each.id, created=True) for each in jobs]


@pytest.fixture
def thread():
    thread = EnqueueThread()
    yield thread
    thread.close()


def threads():
    return {each for each in threading.enumerate() if each.name == NAME}


async def test_one_thread_serves_all_calls_and_ends_when_it_is_closed(thread):
    before = threads()
    assert await asyncio.gather(*[thread.run(created, [JOB]) for _ in range(3)]) == [CREATED] * 3
    [started] = threads() - before
    thread.close()
    started.join(30)
    assert not started.is_alive()
    assert await thread.run(created, [JOB]) == CREATED


async def test_what_storing_raises_is_raised_to_who_asked_and_to_nobody_else(thread):
    def refuse(_jobs):
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        await thread.run(refuse, [JOB])
    assert await thread.run(created, [JOB]) == CREATED


async def test_who_gave_up_is_not_answered_and_the_next_one_is(thread):
    may_go_on, reached = threading.Event(), threading.Event()

    def slow(jobs):
        reached.set()
        may_go_on.wait(30)
        return created(jobs)

    given_up = asyncio.create_task(thread.run(slow, [JOB]))
    await asyncio.to_thread(reached.wait, 30)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    may_go_on.set()
    assert await thread.run(created, [JOB]) == CREATED


def test_a_loop_that_is_closed_keeps_nobody_else_from_being_served(thread):
    may_go_on, reached = threading.Event(), threading.Event()

    def slow(jobs):
        reached.set()
        may_go_on.wait(30)
        return created(jobs)

    async def leave():
        begun = asyncio.create_task(thread.run(slow, [JOB]))
        await asyncio.sleep(0)
        assert not begun.done()
        reached.wait(30)

    asyncio.run(leave())
    may_go_on.set()
    assert asyncio.run(thread.run(created, [JOB])) == CREATED


def test_the_thread_ends_when_what_it_belongs_to_is_gone():
    thread = EnqueueThread()
    before = threads()
    asyncio.run(thread.run(created, [JOB]))
    [started] = threads() - before
    gone = weakref.ref(thread)
    del thread
    gc.collect()
    assert gone() is None
    started.join(30)
    assert not started.is_alive()


def test_a_forked_process_starts_a_thread_of_its_own(thread, monkeypatch):
    asyncio.run(thread.run(created, [JOB]))
    parents = threads()
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    asyncio.run(thread.run(created, [JOB]))
    assert len(threads() - parents) == 1


async def test_on_the_loop_of_a_worker_its_own_store_is_used(tmp_path):
    app = Mulligan(f"sqlite:///{tmp_path}/queue.db")

    @app.task
    async def noop() -> None:
        """Do nothing."""

    before = threads()
    store = app.make_store()
    await store.open()
    app.access.use_on_loop(store)
    try:
        handle = await noop.aenqueue()
        assert await store.get(handle.id) is not None
        assert threads() <= before  # those of other tests may end meanwhile
    finally:
        app.access.use_on_loop(None)
        await store.close()
    await noop.aenqueue()
    assert len(threads() - before) == 1
    await asyncio.to_thread(app.close)
