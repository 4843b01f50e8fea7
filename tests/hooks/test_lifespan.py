"""The lifespan of a worker, and the resources that its tasks ask for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest

from mulligan import INJECTED, Delays, InvalidError, Mulligan, MulliganError, Resource, Retry, each
from mulligan.app.worker import new_worker, work


class Pool:
    """Stands for a pool of connections."""

    def __init__(self, name: str = "real") -> None:
        self.name = name
        self.is_open = True


Db = Annotated[Pool, Resource("db")]


@asynccontextmanager
async def lifespan(app: Mulligan) -> AsyncIterator[dict[str, Any]]:
    pool = Pool()
    yield {"db": pool, "unused": 1}
    pool.is_open = False


@pytest.fixture
def app():
    return Mulligan("memory://", lifespan=lifespan)


def test_a_coroutine_and_a_plain_function_get_what_the_lifespan_yields(app):
    @app.task
    async def ask(question: str, *, db: Db = INJECTED) -> str:
        return f"{question} {db.name} {db.is_open}"

    @app.task
    def plain(question: str, db: Annotated[Pool, Resource("db")] = INJECTED) -> str:
        return f"{question} {db.name} {db.is_open}"

    with app.testing() as t:
        jobs = [ask.enqueue("async"), plain.enqueue("plain")]
        t.drain()
        assert [job.result() for job in jobs] == ["async real True", "plain real True"]
    assert app.resources == {}


def test_testing_with_resources_does_not_enter_the_lifespan():
    @asynccontextmanager
    async def connects(app: Mulligan) -> AsyncIterator[None]:
        if app.lifespan is not None:
            pytest.fail("it was entered")
        yield

    app = Mulligan("memory://", lifespan=connects)

    @app.task
    async def ask(*, db: Db = INJECTED) -> str:
        return db.name

    with app.testing(resources={"db": Pool("fake")}) as t:
        job = ask.enqueue()
        t.drain()
        assert job.result() == "fake"
    with pytest.raises(InvalidError, match=r"task ask: parameter db asks for resource 'db', and"):
        app.testing(resources={"cache": 1}).__enter__()


def test_a_resource_is_no_part_of_the_call(app):
    @app.task
    async def ask(question: str, *, db: Db = INJECTED, **more: int) -> str:
        return question

    with pytest.raises(InvalidError, match="db is resource 'db', which the worker fills in"):
        ask.enqueue("x", db=Pool())
    with pytest.raises(InvalidError, match="cannot be called so: too many positional"):
        ask.enqueue("x", Pool())
    assert list(ask.signature.parameters) == ["question", "more"]


def test_a_direct_call_passes_the_resource_by_hand(app):
    @app.task
    def ask(question: str, *, db: Db = INJECTED) -> str:
        return f"{question} {db.name}"

    assert ask("x", db=Pool("mine")) == "x mine"
    with pytest.raises(InvalidError, match="a worker fills it in; pass it by hand"):
        ask("x")


def test_a_stored_call_that_brings_a_resource_fails_without_retry(app):
    @app.task
    async def ask(*, db: Db = INJECTED) -> str:
        return db.name

    call = ask.call()
    body = call.job.body.replace(b'"kwargs":{}', b'"kwargs":{"db":"forged"}')
    call.job = type(call.job)(call.job.id, "default", "ask", body)
    with app.testing() as t:
        [job] = app.enqueue_many([call])
        t.drain()
        assert job.info().status == "failed"
        assert "leave it out of the call" in str(job.info().last_failure_reason)


def test_stages_sinks_and_ticks_may_ask_for_resources(app):
    saved = []

    @app.sink
    def save(result: int, key: str, db: Db) -> None:
        saved.append((result, db.name))

    @app.task
    def split(*, db: Db) -> list[int]:
        return [1, 2]

    @app.task
    async def double(n: int, db: Db) -> int:
        return 2 * n

    @app.task(sink=save)
    def total(numbers: list[int], db: Db) -> int:
        return sum(numbers)

    @app.task(every=60)
    def tick(*, db: Db) -> None: ...

    with app.testing() as t:
        (split | each(double) | total).enqueue()
        t.drain()
    assert saved == [(6, "real")]


def test_a_resource_before_what_is_filled_by_position_is_refused_at_the_declaration(app):
    with pytest.raises(InvalidError, match=r"db is a resource and stands before question.*put db"):

        @app.task
        def ask(db: Db, question: str) -> None: ...

    with pytest.raises(InvalidError, match=r"db is INJECTED and names no .*Resource\('db'\)\]"):

        @app.task
        def bare(db: int = INJECTED): ...

    with pytest.raises(InvalidError, match="stands before rest"):

        @app.task
        def many(db: Db, *rest: str) -> None: ...

    assert app.tasks == {}


def test_a_resource_whose_annotation_is_defined_later_is_found_at_the_first_call(app):
    names: dict[str, Any] = {"app": app}
    code = "@app.task\nasync def late(*, db: 'Later') -> str:\n    return db.name\nLater = None"
    exec(code, names)  # noqa: S102 - a module whose names are defined in another order
    names["Later"] = Db
    with app.testing() as t:
        job = names["late"].enqueue()
        t.drain()
        assert job.result() == "real"


async def run_worker(app: Mulligan) -> None:
    """A worker of the app, which stops when it is idle."""

    async def stop(engine: Any) -> None:
        await engine.slots.idle()
        engine.stop()

    stopping: list[asyncio.Task[None]] = []
    await work(app, new_worker(app), lambda e: stopping.append(asyncio.create_task(stop(e))))


async def test_a_worker_enters_it_before_the_first_claim_and_leaves_it_after_the_drain(store_url):
    seen: list[str] = []

    @asynccontextmanager
    async def around(app: Mulligan) -> AsyncIterator[None]:
        seen.append("enter")
        yield
        seen.append("leave")

    app = Mulligan(store_url, lifespan=around)
    stop = asyncio.Event()

    @app.task
    async def ask() -> None:
        seen.append("run")
        stop.set()

    await ask.aenqueue()

    async def end(engine: Any) -> None:
        await stop.wait()
        engine.stop()
        seen.append("stop")

    ends: list[asyncio.Task[None]] = []
    await work(app, new_worker(app), lambda e: ends.append(asyncio.create_task(end(e))))
    app.close()
    assert seen == ["enter", "run", "stop", "leave"]


async def test_a_plain_context_manager_will_do():
    seen: list[str] = []

    @contextmanager
    def around(app: Mulligan) -> Iterator[dict[str, str]]:
        seen.append("enter")
        yield {"db": "plain"}
        seen.append("leave")

    app = Mulligan("memory://", lifespan=around)

    @app.task
    def ask(*, db: Annotated[str, Resource("db")] = INJECTED) -> str:
        return db

    async with app.testing() as t:
        job = await ask.aenqueue()
        await t.adrain()
        assert await job.aresult() == "plain"
    assert seen == ["enter", "leave"]


async def test_one_that_raises_at_the_start_claims_nothing_and_is_told(caplog):
    @asynccontextmanager
    async def broken(app: Mulligan) -> AsyncIterator[None]:
        if app.lifespan is not None:
            raise ConnectionError("no database")
        yield

    app = Mulligan("memory://", lifespan=broken)

    @app.task
    def ask() -> None: ...

    job = await ask.aenqueue()
    with pytest.raises(MulliganError, match="lifespan broken failed at the start, and nothing was"):
        await run_worker(app)
    assert (await job.ainfo()).status == "pending"
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[0] is ConnectionError


async def test_one_that_raises_at_the_end_is_logged_and_the_work_is_done(caplog):
    @asynccontextmanager
    async def sloppy(app: Mulligan) -> AsyncIterator[None]:
        yield
        raise ConnectionError("cannot close")

    app = Mulligan("memory://", lifespan=sloppy)

    @app.task(retry=Retry(0, Delays((1,))))
    def ask() -> int:
        return 1

    async with app.testing() as t:
        job = await ask.aenqueue()
        await t.adrain()
        assert await job.aresult() == 1
    assert "lifespan sloppy failed at the end" in caplog.text
    assert "cannot close" in caplog.text


async def test_a_task_that_asks_for_what_is_not_yielded_is_refused_when_the_worker_starts():
    left: list[bool] = []

    @asynccontextmanager
    async def gives(app: Mulligan) -> AsyncIterator[dict[str, int]]:
        yield {"cache": 1}
        left.append(True)

    for app, has in (
        (Mulligan("memory://"), "the app has no lifespan, which gives none"),
        (Mulligan("memory://", lifespan=gives), "lifespan gives gives 'cache'"),
    ):

        @app.task
        def ask(*, db: Db = INJECTED) -> None: ...

        job = await ask.aenqueue()
        with pytest.raises(InvalidError, match=f"task ask: parameter db .* and {has}; add 'db'"):
            await run_worker(app)
        assert (await job.ainfo()).status == "pending"
    assert left == [True]


@pytest.mark.parametrize("yielded", [5, ["db"]])
async def test_one_that_yields_no_mapping_is_refused_and_left(yielded):
    left: list[bool] = []

    @asynccontextmanager
    async def odd(app: Mulligan) -> AsyncIterator[Any]:
        yield yielded
        left.append(True)

    with pytest.raises(InvalidError, match=r"lifespan odd yielded .*; yield a mapping"):
        await run_worker(Mulligan("memory://", lifespan=odd))
    assert left == [True]


def test_what_is_no_context_manager_function_is_refused_when_the_app_is_made():
    async def asynchronous(app):
        yield

    def plain(app):
        yield

    async def coroutine(app): ...

    refused: list[tuple[Any, str]] = [
        (asynchronous, "is a generator function; decorate it with contextlib.asynccontextmanager"),
        (plain, "is a generator function; decorate it with"),
        (coroutine, "must be a function of the app that returns a context manager"),
        (5, "must be a function of the app that returns a context manager"),
    ]
    for wrong, why in refused:
        with pytest.raises(InvalidError, match=why):
            Mulligan("memory://", lifespan=wrong)


async def test_one_that_returns_no_context_manager_is_told_at_the_start():
    app = Mulligan("memory://", lifespan=lambda app: {"db": 1})  # type: ignore[arg-type,return-value]
    with pytest.raises(MulliganError, match=r"lifespan <lambda> failed .*must return a context"):
        await run_worker(app)
