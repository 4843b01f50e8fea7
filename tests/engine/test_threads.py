"""The threads that plain functions run in, when things go wrong around them."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mulligan.engine.threads import OutlivedError, Threads

TIMEOUT = 30


@pytest.fixture
async def threads():
    threads = Threads(asyncio.get_running_loop())
    yield threads
    threads.close()


@pytest.fixture
def most(monkeypatch):
    """Say how many more threads the system lets us start."""
    left = [10**6]
    start = threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    return lambda number: left.__setitem__(0, number)


def asked_for(threads: Threads, call: Callable[[], Any]) -> "asyncio.Task[Any]":
    return asyncio.ensure_future(threads.run(call, None))


async def test_where_no_more_threads_can_be_started_those_there_are_do_the_work(threads, most):
    most(1)
    async with asyncio.timeout(TIMEOUT):
        calls = [asked_for(threads, partial(int, each)) for each in range(20)]
        assert await asyncio.gather(*calls) == list(range(20))


async def test_where_not_one_thread_can_be_started_the_call_fails_and_the_next_is_tried(
    threads, most
):
    async with asyncio.timeout(TIMEOUT):
        most(0)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await threads.run(lambda: 1, None)
        most(1)
        assert await threads.run(lambda: 2, None) == 2


async def test_what_is_given_up_before_a_thread_has_come_to_it_is_never_called(threads, most):
    most(1)
    release, called = threading.Event(), []
    async with asyncio.timeout(TIMEOUT):
        busy = asked_for(threads, lambda: release.wait(TIMEOUT))
        await asyncio.sleep(0)
        with pytest.raises(OutlivedError):
            await threads.run(lambda: called.append("late"), 0.01)
        late = asked_for(threads, lambda: called.append("cut off"))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.wait([late])
        release.set()
        await busy
        await threads.run(lambda: called.append("in time"), None)
    assert (called, threads.abandoned) == (["in time"], 0)


async def test_what_is_given_up_just_when_it_is_over_was_not_abandoned(threads):
    release, over = threading.Event(), threading.Event()
    async with asyncio.timeout(TIMEOUT):
        # a second call of the same thread says that it is through with the first
        first = asked_for(threads, lambda: release.wait(TIMEOUT))
        await asyncio.sleep(0)
        threads._wake = lambda: None
        second = asked_for(threads, over.set)
        await asyncio.sleep(0)
        release.set()
        assert over.wait(TIMEOUT)  # the loop stands still, and has not heard of it
        first.cancel()
        await asyncio.wait([first, second])
    assert threads.abandoned == 0
