"""`app.testing()`: in plain tests and in coroutines, and the app is itself again afterwards."""

import asyncio

import pytest

from mulligan import Delays, JobFailedError, Mulligan, Retry


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
