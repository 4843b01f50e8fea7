"""How a worker keeps its leases while the store is slow to answer."""

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mulligan import Delays, Mulligan, Retry, Settings
from mulligan.core.answers import Beat
from mulligan.core.facts import Facts
from mulligan.core.job import Lease
from mulligan.core.worker import Worker
from mulligan.engine.heartbeat import LONGEST, Heartbeat
from mulligan.engine.loops import OwnThread
from mulligan.engine.worker import Engine
from mulligan.stores.memory import MemoryStore
from mulligan.testing.virtual import VirtualLoop

LEASE, BEAT = 15.0, 5.0
IN_TIME = Settings(lease=2.0, beat=0.5, concurrency=5)


class Answering(MemoryStore):
    """Takes so long for each beat, one after the other; notes what leases it is asked for."""

    def __init__(self, *seconds: float) -> None:
        super().__init__()
        self.seconds = list(seconds)
        self.leases: list[float] = []

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        self.leases.append(worker.lease)
        await asyncio.sleep(self.seconds.pop(0))
        return Beat(list(holding), Facts())


def leases_while(*seconds: float) -> list[float]:
    """The leases that a worker asks for with its beats, which are answered in so many seconds."""
    store = Answering(*seconds)

    async def play() -> None:
        loop, all_heard = asyncio.get_running_loop(), asyncio.Event()

        def heard(_: Beat) -> None:
            if not store.seconds:
                all_heard.set()

        worker = Worker("w", lease=LEASE)
        heartbeat = Heartbeat(store, worker, BEAT, list, heard, monotonic=loop.time)
        beating = asyncio.ensure_future(heartbeat.run())
        await all_heard.wait()
        beating.cancel()

    run(play)
    return store.leases


def run(play: Callable[[], Awaitable[None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(play())
    finally:
        loop.close()


def test_a_lease_is_as_long_as_it_was_set_to_while_answers_come_in_time():
    assert leases_while(5, 5, 4, 0, 0) == [LEASE] * 5


def test_a_lease_is_longer_once_the_store_was_slow_twice_by_as_much_as_it_was_both_times():
    assert leases_while(10, 20, 15, 0) == [LEASE, LEASE, 2 * LEASE, 3 * LEASE]


def test_a_lease_is_as_it_was_set_to_again_after_one_answer_in_time():
    assert leases_while(10, 10, 0, 10, 10, 0) == [LEASE, LEASE, 2 * LEASE, LEASE, LEASE, 2 * LEASE]


def test_a_single_pause_makes_no_lease_longer():
    assert leases_while(0, 3600, 0, 0) == [LEASE] * 4


def test_a_lease_does_not_grow_without_end():
    assert leases_while(3600, 3600, 0) == [LEASE, LEASE, LONGEST * LEASE]


class Slow:
    """The store as it is reached over a way that takes longer than a lease."""

    def __init__(self, store: MemoryStore, seconds: float) -> None:
        self.store = store
        self.seconds = seconds
        self.url = store.url

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.store, name)

        async def late(*arguments: Any) -> Any:
            await asyncio.sleep(self.seconds / 2)
            answer = await operation(*arguments)
            await asyncio.sleep(self.seconds / 2)
            return answer

        return operation if name == "wait" else late


def test_jobs_run_once_on_a_store_whose_answers_take_longer_than_a_lease():
    runs: list[int] = []
    jobs = [f"job-{number}" for number in range(40)]
    app = Mulligan("memory://")

    @app.task(retry=Retry(3, Delays((0.1,))))
    async def work(number: int) -> None:
        runs.append(number)
        await asyncio.sleep(0.1)

    async def play() -> None:
        time = asyncio.get_running_loop().time
        store = MemoryStore(clock=time)
        await store.enqueue([work.using(id=job).call(at).job for at, job in enumerate(jobs)])

        def started(name: str) -> tuple[Engine, asyncio.Task[None]]:
            slow = Slow(store, 2 * IN_TIME.lease)
            worker = Worker(name, lease=IN_TIME.lease, concurrency=IN_TIME.concurrency)
            chance = random.Random(name)
            made = Engine(slow, app.tasks, worker, IN_TIME, chance=chance, monotonic=time)
            return made, asyncio.ensure_future(made.run())

        engines = [started("ann"), started("bob")]
        while (await store.stats()).lanes or (await store.stats()).running:  # noqa: ASYNC110 - a look
            await asyncio.sleep(1)
        for made, running in engines:
            made.stop()
            await running

    run(play)
    assert sorted(runs) == list(range(len(jobs)))


def test_a_thread_that_can_have_no_loop_says_so_instead_of_being_waited_for(monkeypatch):
    errors: list[BaseException] = []

    def no_loop() -> asyncio.AbstractEventLoop:
        raise OSError(24, "Too many open files")

    async def beat() -> None: ...

    monkeypatch.setattr("asyncio.events.new_event_loop", no_loop)
    thread = OwnThread("heart")
    starting = threading.Thread(target=thread.start, args=(beat, errors.append), daemon=True)
    starting.start()
    starting.join(30)
    assert not starting.is_alive()
    assert [str(error) for error in errors] == ["[Errno 24] Too many open files"]
    thread.stop()
