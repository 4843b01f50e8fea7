"""Middleware: functions of the app around every attempt."""

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import pytest

from mulligan import (
    CurrentCall,
    Delays,
    Fail,
    InvalidError,
    JobFailedError,
    Mulligan,
    Resource,
    Retry,
    RetryAfter,
    Snooze,
    current_job,
)
from mulligan.app.worker import new_worker, work

Call = Callable[[], Any]
SOON = Retry(3, Delays((1,)))
REQUEST: ContextVar[str] = ContextVar("request", default="none")


@pytest.fixture
def app():
    return Mulligan("memory://")


@pytest.fixture
def seen():
    return []


def async_recorder(app: Mulligan, name: str, seen: list[Any]) -> None:
    async def around(call: Call, job: CurrentCall) -> Any:
        seen.append(f"> {name}")
        try:
            return await call()
        finally:
            seen.append(f"< {name}")

    around.__name__ = name
    app.middleware(around)


def plain_recorder(app: Mulligan, name: str, seen: list[Any], **options: bool) -> None:
    def around(call: Call, job: CurrentCall) -> Any:
        seen.append(f"> {name}")
        try:
            return call()
        finally:
            seen.append(f"< {name}")

    around.__name__ = name
    app.middleware(**options)(around)


def test_the_first_that_is_declared_is_outermost_whatever_comes_between(app, seen):
    async_recorder(app, "a", seen)

    @app.task
    async def before() -> None:
        seen.append("before")

    async_recorder(app, "b", seen)

    @app.task
    async def after() -> None:
        seen.append("after")

    with app.testing() as t:
        before.enqueue()
        t.drain()
        after.enqueue()
        t.drain()
    assert seen == ["> a", "> b", "before", "< b", "< a", "> a", "> b", "after", "< b", "< a"]


def test_plain_middleware_surrounds_plain_functions_inside_async_middleware(app, seen):
    async_recorder(app, "a", seen)
    async_recorder(app, "b", seen)
    plain_recorder(app, "c", seen)
    plain_recorder(app, "d", seen)

    @app.task
    def plain() -> int:
        seen.append("plain")
        return 5

    with app.testing() as t:
        job = plain.enqueue()
        t.drain()
        assert job.result() == 5
    assert seen == ["> a", "> b", "> c", "> d", "plain", "< d", "< c", "< b", "< a"]


def test_middleware_for_plain_functions_only_leaves_coroutines_alone(app, seen):
    async_recorder(app, "a", seen)
    plain_recorder(app, "b", seen, plain_only=True)

    @app.task
    async def coroutine() -> None: ...

    @app.task
    def plain() -> None: ...

    with app.testing() as t:
        coroutine.enqueue()
        t.drain()
        assert seen == ["> a", "< a"]
        plain.enqueue()
        t.drain()
    assert seen[2:] == ["> a", "> b", "< b", "< a"]


def test_plain_middleware_around_a_coroutine_is_refused_at_the_declaration_of_the_later(app):
    @app.middleware
    def timing(call: Call, job: CurrentCall) -> Any:
        return call()

    with pytest.raises(InvalidError, match=r"timing is a plain .* before task ask, .*plain_only"):

        @app.task
        async def ask() -> None: ...

    other = Mulligan("memory://")

    @other.task
    def first() -> None: ...

    @other.task
    async def tell() -> None: ...

    with pytest.raises(InvalidError, match=r"timing is a plain function .* before task tell"):
        other.middleware(timing)
    assert other.middlewares == []
    assert first.function is first.__wrapped__


def test_async_middleware_declared_after_plain_is_refused(app, seen):
    plain_recorder(app, "inner", seen)
    with pytest.raises(InvalidError, match="outer is a coroutine function, declared after inner"):
        async_recorder(app, "outer", seen)


def test_what_cannot_be_middleware_is_refused_at_the_declaration(app):
    async def asynchronous(call, job): ...

    async def generates(call, job):
        yield

    def one(call): ...

    with pytest.raises(InvalidError, match="leave plain_only= out"):
        app.middleware(plain_only=True)(asynchronous)
    with pytest.raises(InvalidError, match="generator function; instead of yield write call"):
        app.middleware(generates)
    with pytest.raises(InvalidError, match=r"is called as one\(call, job\): too many positional"):
        app.middleware(one)
    with pytest.raises(InvalidError, match="5 is no function"):
        app.middleware(5)


def test_it_sees_the_attempt_and_the_arguments_of_the_call(app):
    app.queue("questions")
    calls: list[CurrentCall] = []

    @app.middleware
    async def look(call: Call, job: CurrentCall) -> Any:
        calls.append(job)
        assert current_job().id == job.id
        return await call()

    @app.task(queue="questions", retry=SOON)
    def ask(
        question: str, times: set[int], *, loud: bool = False, db: Annotated[int, Resource("db")]
    ) -> str:
        if current_job().attempt == 1:
            raise ConnectionError
        return question

    with app.testing(resources={"db": 7}) as t:
        ask.using(id="x").enqueue("why", {1, 2}, loud=True)
        t.drain()
    assert [(job.id, job.task, job.queue, job.attempt) for job in calls] == [
        ("x", "ask", "questions", 1),
        ("x", "ask", "questions", 2),
    ]
    assert calls[0].args == ("why", {1, 2})
    assert calls[0].kwargs == {"loud": True}
    assert calls[0].resources == {"db": 7}
    with pytest.raises(AttributeError):
        calls[0].id = "y"  # type: ignore[misc]


def test_it_may_change_the_result_and_the_gate_checks_what_it_returns(app):
    @app.middleware
    async def louder(call: Call, job: CurrentCall) -> Any:
        return str(await call()).upper()

    @app.task
    async def ask() -> str:
        return "why"

    @app.task(accept=lambda value: value == "plain", retry=Retry(0))
    def plain() -> str:
        return "plain"

    with app.testing() as t:
        jobs = [ask.enqueue(), plain.enqueue()]
        t.drain()
        assert jobs[0].result() == "WHY"
        assert jobs[1].history()[0].type == "Refused"


def test_it_may_leave_the_task_uncalled_or_call_it_again(app):
    runs: list[str] = []

    @app.middleware
    def cached(call: Call, job: CurrentCall) -> Any:
        if job.args == ("cached",):
            return "from the cache"
        call()
        return call()

    @app.task
    def ask(question: str) -> str:
        runs.append(question)
        return question

    with app.testing() as t:
        jobs = [ask.enqueue("cached"), ask.enqueue("twice")]
        t.drain()
        assert [job.result() for job in jobs] == ["from the cache", "twice"]
    assert runs == ["twice", "twice"]


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_what_it_raises_fails_the_attempt_which_is_retried(app, kind):
    runs = []

    def fail() -> None:
        if current_job().attempt < 3:
            raise PermissionError("no ticket")

    if kind == "async":

        @app.middleware
        async def around(call: Call, job: CurrentCall) -> Any:
            fail()
            return await call()
    else:

        @app.middleware
        def around_plain(call: Call, job: CurrentCall) -> Any:
            fail()
            return call()

    @app.task(retry=SOON)
    def ask() -> str:
        runs.append(1)
        return "done"

    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        assert job.result() == "done"
        assert [each.message for each in job.history()] == ["no ticket", "no ticket"]
    assert runs == [1]


def test_the_traceback_of_a_failure_has_the_users_functions_alone(app):
    @app.middleware
    async def outer(call: Call, job: CurrentCall) -> Any:
        return await call()

    @app.middleware
    def inner(call: Call, job: CurrentCall) -> Any:
        return call()

    @app.task(retry=Retry(0))
    def ask() -> None:
        raise ValueError("no")

    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        [failure] = job.history()
    assert re.findall(r", in (\w+)", failure.traceback) == ["outer", "inner", "ask"]


@pytest.mark.parametrize(
    ("signal", "status"), [(Fail("never"), "failed"), (RetryAfter(5), "done"), (Snooze(5), "done")]
)
def test_a_signal_means_in_middleware_what_it_means_in_a_task(app, signal, status):
    told = [signal]

    @app.middleware
    async def around(call: Call, job: CurrentCall) -> Any:
        if told:
            raise told.pop()
        return await call()

    @app.task(retry=SOON)
    def ask() -> None: ...

    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        assert job.info().status == status


def test_a_call_that_is_not_awaited_is_told(app):
    @app.middleware
    async def forgets(call: Call, job: CurrentCall) -> Any:
        return call()

    @app.task(retry=Retry(0))
    async def ask() -> int:
        return 1

    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        assert "return await call()" in str(job.info().last_failure_reason)


def test_contextvars_of_middleware_reach_the_task(app):
    @app.middleware
    async def request_id(call: Call, job: CurrentCall) -> Any:
        token = REQUEST.set(f"request of {job.id}")
        try:
            return await call()
        finally:
            REQUEST.reset(token)

    @app.task
    async def coroutine() -> str:
        await asyncio.sleep(1)
        return REQUEST.get()

    @app.task
    def plain() -> str:
        return REQUEST.get()

    with app.testing() as t:
        jobs = [coroutine.using(id="a").enqueue(), plain.using(id="b").enqueue()]
        t.drain()
        assert [job.result() for job in jobs] == ["request of a", "request of b"]


def test_an_object_with_an_async_call_is_async_middleware(app, seen):
    class Timing:
        async def __call__(self, call: Call, job: CurrentCall) -> Any:
            seen.append(job.task)
            return await call()

    app.middleware(Timing())

    @app.task
    async def ask() -> None: ...

    with app.testing() as t:
        ask.enqueue()
        t.drain()
    assert seen == ["ask"]


async def worked(app: Mulligan, *jobs: Any) -> None:
    """Run a real worker until the jobs have ended."""

    async def until(engine: Any) -> None:
        for job in jobs:
            with contextlib.suppress(JobFailedError):
                await job.aresult(timeout=30)
        engine.stop()

    ends: list[asyncio.Task[None]] = []
    await work(app, new_worker(app), lambda e: ends.append(asyncio.create_task(until(e))))
    await asyncio.gather(*ends)


async def test_plain_middleware_runs_in_the_thread_of_the_function_and_async_on_the_loop(store_url):
    app = Mulligan(store_url)
    where: dict[str, int] = {}
    local = threading.local()

    @app.middleware
    async def outer(call: Call, job: CurrentCall) -> Any:
        where["outer"] = threading.get_ident()
        REQUEST.set("outer")
        return await call()

    @app.middleware
    def inner(call: Call, job: CurrentCall) -> Any:
        where["inner"] = threading.get_ident()
        local.connection = f"connection for {REQUEST.get()}"
        return call()

    @app.task
    def plain() -> str:
        where["plain"] = threading.get_ident()
        return str(local.connection)

    job = await plain.aenqueue()
    await worked(app, job)
    assert await job.aresult() == "connection for outer"
    assert where["inner"] == where["plain"] != where["outer"] == threading.get_ident()
    app.close()


async def test_a_timeout_ends_the_middleware_of_a_coroutine_too():
    app = Mulligan("memory://")
    ended: list[type[BaseException]] = []

    @app.middleware
    async def around(call: Call, job: CurrentCall) -> Any:
        try:
            return await call()
        except BaseException as error:
            ended.append(type(error))
            raise

    @app.task(retry=Retry(0), timeout=5)
    async def slow() -> None:
        await asyncio.sleep(60)

    async with app.testing() as t:
        job = await slow.aenqueue()
        await t.adrain()
        assert [each.type for each in await job.ahistory()] == ["Timeout"]
    assert ended == [asyncio.CancelledError]


async def test_async_middleware_that_waits_around_a_sink_of_sqlite_fails_it_and_writes_nothing(
    tmp_path,
):
    app = Mulligan(f"sqlite:///{tmp_path}/jobs.db")

    @app.middleware
    async def waits(call: Call, job: CurrentCall) -> Any:
        value = await call()
        await asyncio.sleep(0)
        return value

    @app.sink(transactional=True, retry=Retry(0))
    def save(connection: Any, result: int, key: str) -> None:
        connection.execute("CREATE TABLE saved AS SELECT ? AS result", (result,))

    job = await app.tasks["save"].aenqueue(5, key="k")
    await worked(app, job)
    assert "let it await nothing but call()" in str((await job.ainfo()).last_failure_reason)
    app.close()


def test_without_middleware_a_task_is_called_as_it_was_written(app):
    def written() -> None: ...

    assert app.task(written).function is written
    assert app.tasks["written"].around is None
