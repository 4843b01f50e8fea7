"""How many jobs a worker claims for its child processes, and who gets the others; no process here.

Whole engines on the virtual clock, with children that only let time pass.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from mulligan import Mulligan, Settings
from mulligan.core.answers import Claimed
from mulligan.core.outcome import Outcome, Result, Returned, Succeeded, Verdict
from mulligan.core.plan import ClaimPlan
from mulligan.core.worker import Worker
from mulligan.engine.child_messages import Run
from mulligan.engine.pool_room import LONGEST_MOMENT, LONGEST_REST, MOMENT, REST, PoolRoom
from mulligan.engine.worker import Engine
from mulligan.stores.memory import MemoryStore
from mulligan.testing.virtual import VirtualLoop

if TYPE_CHECKING:
    from mulligan.engine.processes import Processes

SETTINGS = Settings(concurrency=10, pool_size=2)


class Children:
    """Stands for child processes: each attempt takes as long as its first argument says."""

    def __init__(self) -> None:
        self.ran: list[tuple[float, str]] = []
        self.running = self.most = 0

    async def child(self, _max_memory: int | None) -> None:
        return None

    async def result(self, _child: None, run: Run, *_limits: Any) -> Result:
        self.ran.append((asyncio.get_running_loop().time(), run.claim.id))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(float(run.claim.id.rpartition("-")[2]))
        self.running -= 1
        return Succeeded(None)

    def done_with(self, _child: None) -> None:
        pass


class Store(MemoryStore):
    """A store that counts claims and what is given back."""

    def __init__(self) -> None:
        super().__init__(clock=asyncio.get_running_loop().time)
        self.claims = 0
        self.returned: list[str] = []
        self.done: dict[str, float] = {}

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        self.claims += 1
        return await super().claim(plan, worker)

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        for each in outcomes:
            if isinstance(each, Returned):
                self.returned.append(each.lease.job)
            else:
                self.done[each.lease.job] = asyncio.get_running_loop().time()
        return await super().commit(outcomes)


@pytest.fixture
def app():
    made = Mulligan("memory://", settings=SETTINGS)

    @made.task(pool="process", queue="pool")
    def alone() -> None: ...

    @made.task(pool="process", queue="mixed")
    def slow() -> None: ...

    @made.task(queue="mixed")
    async def quick() -> None: ...

    @made.task(queue="loop")
    async def elsewhere() -> None: ...

    return made


@asynccontextmanager
async def working(
    app: Mulligan, store: MemoryStore, name: str = "w", **options: Any
) -> AsyncIterator[Children]:
    children = Children()
    queues = options.pop("queues", app.queue_names)
    engine = Engine(
        store,
        app.tasks,
        Worker(name, "default", queues, concurrency=SETTINGS.concurrency),
        SETTINGS,
        chance=random.Random(name),
        monotonic=asyncio.get_running_loop().time,
        processes=cast("Processes", children),
        pool_queues={"pool"},
    )
    running = asyncio.ensure_future(engine.run())
    try:
        yield children
    finally:
        engine.stop()
        if not options.get("drain", True):
            engine.stop()
        await running


async def enqueue(app: Mulligan, store: MemoryStore, task: str, *ids: str) -> None:
    await store.enqueue([app.tasks[task].using(id=each).call().job for each in ids])


def play(coroutine: Any) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(coroutine)
    finally:
        loop.close()


def test_a_queue_of_its_own_is_claimed_for_free_children_only(app):
    async def main() -> None:
        store = Store()
        await enqueue(app, store, "alone", *(f"job{n}-60" for n in range(8)))
        async with working(app, store) as first:
            await asyncio.sleep(30)
            assert [job for _, job in first.ran] == ["job0-60", "job1-60"]
            async with working(app, store, "other") as second:
                await asyncio.sleep(15)
                assert [job for _, job in second.ran] == ["job2-60", "job3-60"]
                await asyncio.sleep(16)
                assert [job for _, job in first.ran[2:]] == ["job4-60", "job5-60"]
                await asyncio.sleep(300)
        assert (store.returned, len(store.done)) == ([], 8)
        assert (first.most, second.most) == (2, 2)

    play(main())


def test_a_child_that_is_free_gets_its_next_job_at_once(app):
    async def main() -> None:
        store = Store()
        await enqueue(app, store, "alone", *(f"job{n}-0.02" for n in range(100)))
        async with working(app, store) as children:
            while len(store.done) < 100:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.01)
            assert children.ran[-1][0] - children.ran[0][0] == pytest.approx(49 * 0.02, rel=0.05)
        assert children.most == 2

    play(main())


@pytest.mark.parametrize("task", ["elsewhere", "quick"])
def test_coroutines_start_at_once_beside_busy_children(app, task):
    async def main() -> None:
        store, waits = Store(), []
        pooled = "slow" if task == "quick" else "alone"
        await enqueue(app, store, pooled, *(f"job{n}-1000" for n in range(4)))
        async with working(app, store, drain=False):
            for number in range(200):
                asked = asyncio.get_running_loop().time()
                await enqueue(app, store, task, f"quick{number}")
                await asyncio.sleep(0.9)
                waits.append(store.done[f"quick{number}"] - asked)
        # In a mixed queue a coroutine may come just when the worker rests from it.
        assert max(waits) <= (REST + 0.01 if task == "quick" else 0.01)
        assert sorted(waits)[-3] < 0.01

    play(main())


def test_what_waits_in_a_mixed_queue_is_offered_to_others_ever_more_rarely(app):
    async def main() -> None:
        store = Store()
        await enqueue(app, store, "slow", *(f"job{n}-100000" for n in range(5)))
        async with working(app, store, drain=False) as first:
            await asyncio.sleep(7200)
            assert len(first.ran) == 2
            # Three jobs wait: first for a moment, then twice as long each time, at most a minute.
            assert len(store.returned) <= 3 * (7200 / LONGEST_MOMENT + 10)
            async with working(app, store, "other", drain=False) as second:
                await asyncio.sleep(LONGEST_MOMENT + 5)
                assert len(second.ran) == 2

    play(main())


def test_a_worker_that_is_free_soon_has_what_another_cannot_start(app):
    async def main() -> None:
        store = Store()
        async with (
            working(app, store, drain=False) as first,
            working(app, store, "other", drain=False) as second,
        ):
            await asyncio.sleep(1)
            await enqueue(app, store, "slow", *(f"job{n}-1000" for n in range(4)))
            await asyncio.sleep(3)
            assert (len(first.ran), len(second.ran)) == (2, 2)

    play(main())


def test_more_than_there_are_slots_for_leave_some_to_coroutines(app):
    async def main() -> None:
        store = Store()
        await enqueue(app, store, "slow", *(f"job{n}-1000" for n in range(50)))
        async with working(app, store, drain=False):
            await asyncio.sleep(10)
            before = store.claims
            await asyncio.sleep(60)
            await enqueue(app, store, "elsewhere", "other")
            await asyncio.sleep(0.01)
            assert "other" in store.done
            assert store.claims - before < 200

    play(main())


def test_a_drain_gives_back_what_waits(app):
    async def main() -> None:
        store = Store()
        await enqueue(app, store, "slow", *(f"job{n}-20" for n in range(4)))
        async with working(app, store) as children:
            await asyncio.sleep(0.1)
        assert len(children.ran) == 2
        assert sorted(store.returned) == ["job2-20", "job3-20"]

    play(main())


# -- the room alone -------------------------------------------------------------------------


def room(size: int = 2, slots: int = 10) -> PoolRoom:
    async def leave(_queue: str, _rest: float) -> None:
        pass

    return PoolRoom(size, slots, {"pool"}, changed=lambda: None, leave=leave)


def test_there_are_no_more_children_than_slots():
    assert room(size=8, slots=3).size == 3


def test_short_attempts_are_claimed_ahead_and_refilled_by_halves():
    async def main() -> None:
        made = room(size=2, slots=100)
        rooms = [made.room]
        for _ in range(2):
            assert await made.enter("pool")
        rooms.append(made.room)
        made.leave(0.02)
        rooms.append(made.room)  # one is free, and five for each child
        assert await made.enter("pool")
        waiting = [asyncio.ensure_future(made.enter("pool")) for _ in range(10)]
        await asyncio.sleep(0)
        for _ in range(6):
            rooms.append(made.room)
            made.leave(0.02)
        assert rooms == [2, 0, 11, 0, 0, 0, 0, 0, 5]
        made.drain()
        await asyncio.gather(*waiting)

    play(main())


def test_one_that_is_cancelled_while_it_waits_keeps_nobody_out():
    async def main() -> None:
        made = room(size=1)
        assert await made.enter("mixed")
        waiting = [asyncio.ensure_future(made.enter("mixed")) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        await asyncio.sleep(0)
        made.leave(1.0)
        waiting[1].cancel()  # just when it is let in
        assert await waiting[2]

    play(main())


def test_after_a_child_was_free_the_next_wait_is_short_again():
    async def main() -> None:
        made, clock = room(size=1), asyncio.get_running_loop().time

        async def refused_after() -> float:
            began = clock()
            assert not await made.enter("mixed")
            return clock() - began

        assert await made.enter("mixed")
        waits = [await refused_after() for _ in range(3)]
        assert waits == pytest.approx([MOMENT, 2 * MOMENT, 4 * MOMENT])
        waiting = asyncio.ensure_future(made.enter("mixed"))
        await asyncio.sleep(0.01)
        made.leave(1.0)
        assert await waiting
        assert await refused_after() == pytest.approx(MOMENT)

    play(main())


def test_while_more_wait_than_get_a_child_the_next_waits_stay_long():
    async def main() -> None:
        made = room(size=1)
        assert await made.enter("mixed")

        async def three_wait() -> "list[asyncio.Task[bool]]":
            tasks = [asyncio.create_task(made.enter("mixed")) for _ in range(3)]
            await asyncio.sleep(MOMENT / 2)
            return tasks

        assert await asyncio.gather(*await three_wait()) == [False] * 3
        waiting = await three_wait()
        made.leave(1.0)  # one of them gets the child, and the others wait on
        assert await asyncio.gather(*waiting) == [True, False, False]
        began = asyncio.get_running_loop().time()
        assert not await made.enter("mixed")
        assert asyncio.get_running_loop().time() - began == pytest.approx(4 * MOMENT)

    play(main())


def test_jobs_over_what_may_wait_are_not_claimed_again_before_half_of_those_have_started():
    async def main() -> None:
        rests: list[float] = []

        async def leave(_queue: str, rest: float) -> None:
            rests.append(rest)

        made = PoolRoom(2, 10, {"pool"}, changed=lambda: None, leave=leave)
        assert await made.enter("mixed")
        made.leave(0.1)
        for _ in range(2):
            assert await made.enter("mixed")
        waiting = [asyncio.create_task(made.enter("mixed")) for _ in range(4)]
        await asyncio.sleep(0)
        assert not await made.enter("mixed")
        assert rests == pytest.approx([0.1 * 4 / 2 / 2])
        made.drain()
        await asyncio.gather(*waiting)

    play(main())


def test_where_none_may_wait_jobs_are_claimed_and_given_back_ever_more_rarely():
    async def main() -> None:
        rests: list[float] = []

        async def leave(_queue: str, rest: float) -> None:
            rests.append(rest)

        made = PoolRoom(2, 3, {"pool"}, changed=lambda: None, leave=leave)
        for _ in range(2):
            assert await made.enter("mixed")
        for _ in range(12):
            assert not await made.enter("mixed")
        assert rests[0] == pytest.approx(MOMENT)
        assert rests[1:] == sorted(rests[1:])
        assert rests[-1] == LONGEST_REST
        made.leave(0.1)  # a child is free, and the next rest is short again
        assert await made.enter("mixed")
        assert not await made.enter("mixed")
        assert rests[-1] == pytest.approx(MOMENT)

    play(main())
