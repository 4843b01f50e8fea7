"""`app.testing()`: in plain tests and in coroutines, and the app is itself again afterwards."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan import Delays, InvalidError, JobFailedError, Mulligan, Retry, step


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def ask(app):
    @app.task(retry=Retry(3, Delays((3600,))))
    async def ask(question: str) -> str:
        if len(app.tries) < 2:
            app.tries.append(question)
            raise TimeoutError
        return question.upper()

    app.tries = []
    return ask


async def test_a_coroutine_drains_hours_of_backoff(app, ask):
    async with app.testing() as t:
        job = await ask.aenqueue("ready?")
        assert 7200 <= await t.adrain() < 7300
        assert await job.aresult() == "READY?"
        assert len(await job.ahistory()) == 2


async def test_waiting_for_a_result_in_a_coroutine_lets_virtual_time_pass(app, ask):
    async with app.testing() as t:
        first, second = await ask.aenqueue("one"), await ask.aenqueue("two")
        one, two = await asyncio.gather(first.aresult(), second.aresult())
        assert (one, two) == ("ONE", "TWO")
        assert t.now == 3600


async def test_time_is_advanced_from_a_coroutine(app, ask):
    async with app.testing() as t:
        job = await ask.aenqueue("ready?")
        await t.aadvance(60)
        assert (t.now, (await job.ainfo()).status) == (60, "pending")
        assert (await job.aexplain()).startswith("Waiting for retry 1 after: ")


async def test_plain_calls_work_inside_a_running_loop(app, ask):
    with app.testing() as t:
        job = ask.enqueue("ready?")
        t.advance(60)
        assert job.status == "pending"
        t.drain()
        assert job.result() == "READY?"
        assert [each.id for each in t.jobs()] == [job.id]
        assert t.run(asyncio.sleep(1, "slept")) == "slept"


async def test_what_a_task_raises_is_raised_in_the_coroutine_that_waits(app):
    @app.task(retry=Retry(0))
    def fail() -> None:
        raise ValueError("bad")

    async with app.testing():
        with pytest.raises(JobFailedError, match="bad"):
            await (await fail.aenqueue()).aresult()


async def test_afterwards_a_coroutine_has_the_store_of_the_app(app, ask):
    before = app.access
    async with app.testing():
        job = await ask.aenqueue("ready?")
    assert app.access is before
    assert await app.access.acall(lambda store: store.get(job.id)) is None


def broken(app: Mulligan) -> None:
    async def fail() -> None:
        raise OSError("no")

    app.aconfigure = fail  # type: ignore[method-assign]


def test_whatever_fails_at_the_beginning_leaves_the_app_on_its_own_store(app, ask):
    before = app.access
    broken(app)
    with pytest.raises(OSError, match="no"), app.testing():
        pass
    assert app.access is before


async def test_so_it_does_in_a_coroutine(app, ask):
    before = app.access
    broken(app)
    with pytest.raises(OSError, match="no"):
        async with app.testing():
            pass
    assert app.access is before


def test_a_parent_may_await_its_child(app: Mulligan):
    @app.task
    async def child(number: int) -> int:
        await asyncio.sleep(5)
        return number + 1

    @app.task
    async def parent() -> int:
        return await (await child.aenqueue(1)).aresult()

    with app.testing() as t:
        job = parent.enqueue()
        assert t.drain() < 60
        assert job.result() == 2


def test_as_many_run_at_a_time_as_it_is_told(app):
    running, most = [], []

    @app.task
    async def work() -> None:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(1)
        running.pop()

    with app.testing(concurrency=2) as t:
        app.enqueue_many(work.call() for _ in range(6))
        t.drain()
    assert max(most) == 2


def test_a_week_in_which_nothing_happens_passes_in_a_few_steps(app):
    """Counted, not timed: workers wake every second, and a week has 604,800 of them."""
    ran: list[float] = []

    @app.task
    async def note() -> None:
        ran.append(round(asyncio.get_running_loop().time()))

    with app.testing() as t:
        beats = t.store.beat
        count = 0

        async def counted(*args: Any) -> Any:
            nonlocal count
            count += 1
            return await beats(*args)

        t.store.beat = counted
        note.using(delay=86_400 * 6).enqueue()
        t.advance(86_400 * 7)
        assert count < 200
        assert t.now == 86_400 * 7
    assert ran == [86_400 * 6]


def test_an_idle_time_is_cut_short_by_whatever_happens_in_it(app):
    seen: list[Any] = []

    @contextlib.asynccontextmanager
    async def lifespan(_app: Any) -> Any:
        async def tick() -> None:
            while True:
                await asyncio.sleep(1000)
                seen.append(round(asyncio.get_running_loop().time()))

        ticking = asyncio.create_task(tick())
        yield {}
        ticking.cancel()

    app.lifespan = lifespan

    @app.task(expires=500)
    async def late() -> None: ...

    @app.task(timeout=5000, retry=Retry(0))
    async def slow() -> None:
        await asyncio.sleep(4000)

    with app.testing() as t:
        app.pause("default")
        expired = late.enqueue()
        t.advance(600)
        assert expired.info().status == "cancelled"
        app.resume("default")
        ended = slow.enqueue()
        t.advance(3999)
        assert ended.info().status == "processing"
        t.advance(2)
        assert ended.info().status == "done"
    assert seen == [1000, 2000, 3000, 4000]


def test_schedules_tick_on_time_through_idle_days(app):
    ticks: list[float] = []

    @app.task(cron="0 9 * * *")
    async def daily() -> None:
        ticks.append(asyncio.get_running_loop().time())

    with app.testing() as t:
        t.advance(86_400 * 30)
    assert [round(at / 3600, 2) for at in ticks] == [9 + 24 * day for day in range(30)]


def test_the_clock_may_start_at_a_date(app):
    start = datetime(2026, 3, 28, 12, tzinfo=UTC)
    ran: list[float] = []

    @app.task
    async def note() -> None:
        ran.append(asyncio.get_running_loop().time())

    @app.task(cron="30 2 * * *", timezone="Europe/Berlin")
    async def nightly() -> None: ...

    before = app.clock
    with app.testing(start=start) as t:
        note.using(run_after=start + timedelta(hours=1)).enqueue()
        t.advance(7200)
        assert (round(ran[0]), t.now) == (3600, 7200.0)
        assert note.enqueue().info().created_at == start.timestamp() + t.now
        [view] = app.schedules.list()
        # The clocks go forward in this night, so that half past two does not exist.
        assert datetime.fromtimestamp(view.next_ticks[1], UTC) == datetime(
            2026, 3, 30, 0, 30, tzinfo=UTC
        )
    assert app.clock is before
    with pytest.raises(InvalidError, match=r"start .* must be a datetime with a time zone"):
        app.testing(start=datetime(2026, 3, 28))  # noqa: DTZ001 - refused


def test_plain_functions_may_run_a_loop_and_wait_for_results(app):
    @app.task
    def double(number: int) -> int:
        return 2 * number

    @app.task
    def waits(number: int) -> Any:
        return double.using(delay=60).enqueue(number).result()

    @app.task
    def runs(number: int) -> Any:
        async def main() -> Any:
            await asyncio.sleep(0)
            job = await double.aenqueue(number)
            return [await job.aresult(), await waits.enqueue(number).aresult()]

        return asyncio.run(main())

    @app.task
    def steps(number: int) -> Any:
        return step("double", lambda: waits.enqueue(number).result())

    with app.testing() as t:
        jobs = [task.enqueue(4) for task in (waits, runs, steps)]
        assert [job.result() for job in jobs] == [8, [8, 8], 8]
        assert t.now >= 60


async def test_plain_functions_may_wait_in_a_test_that_is_a_coroutine(app):
    @app.task
    def double(number: int) -> int:
        return 2 * number

    @app.task
    def waits(number: int) -> Any:
        async def main() -> Any:
            return await double.enqueue(number).aresult()

        return double.enqueue(asyncio.run(main())).result()

    async with app.testing():
        assert await waits.enqueue(4).aresult() == 16
