"""Who holds the loop is named, and its neighbours' timeouts do not run meanwhile."""

import asyncio
import logging
import re
import threading
import time
from contextlib import closing

import pytest

from mulligan import Mulligan, Retry
from mulligan.engine.loop_watch import LATE, Deadline, LoopWatch
from mulligan.engine.task_caller import SinkCalls, WorkError, guarded_coroutine
from mulligan.stores.memory import MemoryStore
from mulligan.testing import VirtualLoop
from tests.engine.real_engine import ended, engine


@pytest.fixture
def app():
    return Mulligan("memory://")


class Until(logging.Handler):
    """Lets a thread wait until a line with these words has been logged."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words
        self.came = threading.Event()
        self.lines: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record)
        if self.words in record.getMessage():
            self.came.set()


@pytest.fixture
def named():
    """Who holds the loop was named."""
    handler = Until("has held the worker's loop")
    log = logging.getLogger("mulligan.worker")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


async def test_a_coroutine_that_holds_the_loop_is_named_with_the_line_it_was_at(app, named):
    @app.task
    async def hold() -> None:
        named.came.wait()

    store = MemoryStore()
    async with engine(app, store):
        await store.enqueue([hold.using(id="j").call().job])
        assert await ended(store, "j") == ["done"]
        while "held the worker's loop for" not in named.lines[-1].getMessage():  # noqa: ASYNC110
            await asyncio.sleep(0)
    holding, held = [each for each in named.lines if "loop" in each.getMessage()]
    assert holding.getMessage().startswith("job j: task hold has held the worker's loop for 1.")
    assert " at test_loop_watch.py:" in holding.getMessage()
    assert " in hold, from where threading.py:" in holding.getMessage()
    assert "await instead of blocking, or make it a plain function" in holding.getMessage()
    assert held.getMessage().startswith("job j: task hold held the worker's loop for ")
    assert (holding.__dict__["job"], held.__dict__["task"]) == ("j", "hold")


async def test_its_neighbours_timeouts_do_not_run_meanwhile(app, named):
    waiting, over = asyncio.Event(), asyncio.Event()

    @app.task(timeout=0.7, retry=Retry(0))
    async def neighbour() -> None:
        waiting.set()
        await over.wait()

    @app.task
    async def hold() -> None:
        await waiting.wait()
        named.came.wait()

    @app.task
    async def after(turns: int) -> None:
        await waiting.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        over.set()

    store = MemoryStore()
    async with engine(app, store):
        jobs = [neighbour.using(id="n"), hold.using(id="h")]
        await store.enqueue([each.call().job for each in jobs])
        await store.enqueue([after.using(id="a").call(20).job])
        assert await ended(store, "n", "h", "a") == ["done"] * 3


async def test_one_that_holds_the_loop_itself_has_that_time_counted(app, named):
    @app.task(timeout=0.5, retry=Retry(0))
    async def hold() -> None:
        named.came.wait()
        await asyncio.get_running_loop().create_future()

    store = MemoryStore()
    async with engine(app, store):
        await store.enqueue([hold.using(id="h").call().job])
        assert await ended(store, "h") == ["failed"]


class Clock:
    """A loop's time, as a watch reads it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("mulligan.engine.loop_watch.time.monotonic", lambda: self.now)


def nobody(_frame: object) -> None:
    """A frame that runs no attempt."""


async def test_time_is_counted_as_held_when_a_tick_is_late(monkeypatch):
    clock = Clock(monkeypatch)
    watch = LoopWatch(lambda: True, nobody)
    monkeypatch.setattr(watch, "_look_on", lambda: None)
    watch.begin()
    clock.now += 0.1
    assert watch.held() == 0.0
    clock.now += 4.9
    assert watch.held() == pytest.approx(5.0)
    watch._tick()
    clock.now += 0.1
    watch._tick()
    assert watch.held() == pytest.approx(5.0)
    watch.close()
    watch._tick()
    watch.begin()  # of no effect any more
    clock.now += 5
    assert watch.held() == pytest.approx(5.0)


async def test_a_coroutine_of_no_attempt_is_named_by_its_line_and_not_blamed_on_a_job(
    monkeypatch, named
):
    watch = LoopWatch(lambda: True, nobody)
    monkeypatch.setattr(watch, "_look_on", lambda: None)
    watch.begin()
    now = time.monotonic()
    for seconds in (0.3, 0.9, 1.3, 1.6):
        watch.look(now + seconds, 0.0)
    watch._tick()
    watch.close()
    holding, held = named.lines
    assert "a coroutine has held the worker's loop for 1.3 s at loop_watch.py:" in str(
        holding.getMessage()
    )
    assert held.getMessage().startswith("a coroutine held the worker's loop for ")


async def test_nobody_is_named_for_the_time_in_which_the_process_was_stopped(monkeypatch, named):
    watch = LoopWatch(lambda: True, nobody)
    monkeypatch.setattr(watch, "_look_on", lambda: None)
    watch.begin()
    now = time.monotonic()
    for seconds in (60.0, 60.3, 60.9):
        watch.look(now + seconds, now + 60.0)
    watch.close()
    assert named.lines == []


async def test_a_loop_that_only_waits_is_held_by_nobody(named):
    watch = LoopWatch(lambda: True, nobody)
    watch.begin()
    loop = asyncio.get_running_loop()

    def look() -> None:
        while asyncio.current_task(loop) is not None:
            pass
        now = time.monotonic()
        for seconds in (0.3, 1.3):
            watch.look(now + seconds, 0.0)

    await asyncio.to_thread(look)
    watch.close()
    assert named.lines == []


def test_a_deadline_is_put_off_by_as_much_as_others_hold_the_loop():
    loop, held = VirtualLoop(), [3.0]

    async def attempt() -> None:
        async with Deadline(10, lambda: held[0]) as deadline:
            deadline.begin()
            held[0] += 5
            await loop.create_future()

    with closing(loop), pytest.raises(TimeoutError):
        loop.run_until_complete(attempt())
    assert loop.time() == 15.0


def test_so_is_that_of_a_transactional_sink():
    loop, held = VirtualLoop(), [3.0]

    async def write(_connection: object) -> None:
        loop.call_later(1, held.append, 8.0)
        await loop.create_future()

    async def late(_connection: object) -> None:
        raise TimeoutError("the bank's own")

    with closing(loop):
        with pytest.raises(WorkError) as refused:
            loop.run_until_complete(
                guarded_coroutine(write, (), {}, 10, lambda: held[-1], calls=SinkCalls())(None)
            )
        assert (loop.time(), str(refused.value)) == (15.0, "the attempt took longer than 10 s")
        with pytest.raises(WorkError, match="the bank's own"):
            loop.run_until_complete(guarded_coroutine(late, (), {}, calls=SinkCalls())(None))


@pytest.mark.parametrize("lingers", [4.0, 6.0])
def test_a_coroutine_that_runs_on_after_its_timeout_is_named(app, caplog, lingers):
    @app.task(timeout=10)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(lingers)
        return "in the end"

    with app.testing() as t:
        job = stubborn.enqueue()
        t.drain()
        assert job.result() == "in the end"
    said = "".join(each for each in caplog.messages if "still runs" in each)
    whole = rf"job {job.id}: task stubborn still runs 5 s after .*; let asyncio.CancelledError pass"
    assert re.match(whole, said) if lingers > LATE else said == ""


async def test_a_deadline_that_begins_too_late_has_no_effect():
    deadline = Deadline(0.0)
    async with deadline:
        pass
    deadline.begin()
    await asyncio.sleep(0)
    assert not deadline.expired


async def test_what_a_deadline_watches_is_given_what_is_thrown_into_it():
    async def work() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "stopped in good order"
        return "never"

    deadline = Deadline(60)

    async def attempt() -> object:
        async with deadline:
            return await deadline.watched(work())

    running = asyncio.ensure_future(attempt())
    await asyncio.sleep(0)
    running.cancel()
    assert await running == "stopped in good order"
