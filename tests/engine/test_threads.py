"""The threads that plain functions run in, when things go wrong around them."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mulligan.engine.threads import OutlivedError, Threads
from tests.engine.real_engine import until

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


def asked_for(
    threads: Threads, call: Callable[[], Any], limit: float | None = None
) -> "asyncio.Task[Any]":
    return asyncio.ensure_future(threads.run(call, limit))


async def test_where_no_more_threads_can_be_started_those_there_are_do_the_work(threads, most):
    most(1)
    async with asyncio.timeout(TIMEOUT):
        calls = [asked_for(threads, partial(int, each)) for each in range(20)]
        assert await asyncio.gather(*calls) == list(range(20))


@pytest.mark.parametrize("raised", [StopIteration("end"), GeneratorExit("end")])
async def test_what_a_function_raises_that_nothing_can_await_reaches_its_caller_as_a_cause(
    threads, raised
):
    def end():
        raise raised

    with pytest.raises(RuntimeError, match=rf"raised {type(raised).__name__}: end$") as caught:
        await asyncio.wait_for(threads.run(end, None), TIMEOUT)
    assert caught.value.__cause__ is raised


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


class Crowd:
    """Calls that block until they are let go, and how many of them ran at a time at most."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.inside = 0
        self.most = 0
        self.begun = threading.Semaphore(0)
        self._lock = threading.Lock()

    def call(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.begun.release()
        self.release.wait(TIMEOUT)
        with self._lock:
            self.inside -= 1

    async def begin(self, count: int) -> None:
        """Wait until so many more have begun."""
        for _ in range(count):
            assert await asyncio.to_thread(self.begun.acquire, timeout=TIMEOUT)


async def test_no_more_functions_run_at_a_time_than_there_may_be_threads():
    threads, crowd = Threads(asyncio.get_running_loop(), 3), Crowd()
    async with asyncio.timeout(TIMEOUT):
        calls = [asked_for(threads, crowd.call) for _ in range(10)]
        await crowd.begin(3)
        crowd.release.set()
        await asyncio.gather(*calls)
    assert crowd.most == 3
    threads.close()


async def test_the_timeout_of_a_function_counts_from_when_its_thread_begins():
    threads, crowd = Threads(asyncio.get_running_loop(), 1), Crowd()
    async with asyncio.timeout(TIMEOUT):
        busy = asked_for(threads, crowd.call)
        await crowd.begin(1)
        waits = asked_for(threads, lambda: "in time", 0.05)
        stuck = asked_for(threads, lambda: crowd.begun.acquire(timeout=TIMEOUT), 0.05)
        others = Threads(asyncio.get_running_loop())
        with pytest.raises(OutlivedError):  # which takes twice as long as these may
            await others.run(lambda: crowd.release.wait(TIMEOUT), 0.1)
        assert not waits.done()
        assert not stuck.done()
        crowd.release.set()
        assert await waits == "in time"
        with pytest.raises(OutlivedError):
            await stuck
        await busy
        assert threads.abandoned == 1
        crowd.begun.release()
    threads.close()
    others.close()


async def test_an_abandoned_thread_makes_room_for_another_and_comes_back_only_if_there_is_room():
    threads = Threads(asyncio.get_running_loop(), 2)
    stuck, crowd = Crowd(), Crowd()
    async with asyncio.timeout(TIMEOUT):
        lost = [asked_for(threads, stuck.call, 0.01) for _ in range(2)]
        calls = [asked_for(threads, crowd.call) for _ in range(6)]
        for each in lost:
            with pytest.raises(OutlivedError):
                await each
        await crowd.begin(2)  # in threads that took the places of the two
        assert threads.abandoned == 2
        stuck.release.set()

        async def are_back() -> bool:
            return not threads.abandoned

        await until(are_back)
        crowd.release.set()
        await asyncio.gather(*calls)
    assert crowd.most == 2
    threads.close()


@pytest.mark.parametrize(("processors", "limit"), [(2, 6), (64, 32), (None, 5)])
async def test_there_are_a_few_more_threads_than_processors_unless_told(
    monkeypatch, processors, limit
):
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    threads, crowd = Threads(asyncio.get_running_loop()), Crowd()
    async with asyncio.timeout(TIMEOUT):
        calls = [asked_for(threads, crowd.call) for _ in range(limit + 5)]
        await crowd.begin(limit)
        crowd.release.set()
        await asyncio.gather(*calls)
    assert crowd.most == limit
    threads.close()
