"""Transactional sinks: what they write is there exactly once, whatever goes wrong."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mulligan import (
    CurrentCall,
    Delays,
    JobFailedError,
    Mulligan,
    Retry,
    RetryAfter,
    Settings,
    Snooze,
    StoreUnavailableError,
    current_job,
)
from mulligan.app.worker import new_worker
from mulligan.core.counts import SINK_AGAIN
from mulligan.core.outcome import Done
from mulligan.engine.worker import Engine
from tests.engine.test_on_every_store import LEASE, working
from tests.store_kit import fresh_url

AT_ONCE = Retry(5, Delays((0,)))


class Ledger:
    """A table of the user's own beside the store's, and a sink that writes to it.

    `mishap` is called after the writing, inside the transaction.
    """

    def __init__(self, app: Mulligan) -> None:
        self.app = app
        self.mishap: Callable[[], None] = lambda: None
        self.sink = self._sqlite_sink() if app.url.startswith("sqlite") else self._postgres_sink()

        @app.task(sink=self.sink)
        async def ask(text: str) -> str:
            return text

        self.ask = ask

    def _sqlite_sink(self):
        self._path = self.app.url.removeprefix("sqlite:///")
        with sqlite3.connect(self._path) as db:
            db.execute("CREATE TABLE ledger (entry TEXT, key TEXT)")
        db.close()

        @self.app.sink(transactional=True, retry=AT_ONCE)
        def write(connection: sqlite3.Connection, result: str, key: str) -> None:
            connection.execute("INSERT INTO ledger VALUES (?, ?)", (result, key))
            self.mishap()

        return write

    def _postgres_sink(self):
        import psycopg  # noqa: PLC0415 - a driver is needed only where its server is

        parts = urlsplit(self.app.url)
        self._server = parts._replace(query="").geturl()
        self._table = f"public.ledger_{parse_qs(parts.query)['schema'][0]}"
        with psycopg.connect(self._server, autocommit=True) as db:
            db.execute(f"CREATE TABLE {self._table} (entry text, key text)".encode())

        @self.app.sink(transactional=True, retry=AT_ONCE)
        async def write(connection: psycopg.AsyncConnection, result: str, key: str) -> None:
            statement = f"INSERT INTO {self._table} VALUES (%s, %s)"  # noqa: S608 - a name of ours
            await connection.execute(statement.encode(), (result, key))
            self.mishap()

        return write

    def entries(self) -> list[tuple[str, str]]:
        """What the table holds."""
        if self.app.url.startswith("sqlite"):
            with sqlite3.connect(self._path) as db:
                rows = db.execute("SELECT * FROM ledger").fetchall()
            db.close()
            return rows
        import psycopg  # noqa: PLC0415

        with psycopg.connect(self._server) as server:
            statement = f"SELECT * FROM {self._table}"  # noqa: S608 - a name of ours
            return server.execute(statement.encode()).fetchall()

    def remove(self) -> None:
        """Drop what lies outside the store."""
        if not self.app.url.startswith("sqlite"):
            import psycopg  # noqa: PLC0415

            with psycopg.connect(self._server, autocommit=True) as db:
                db.execute(f"DROP TABLE {self._table}".encode())


@pytest.fixture(params=["sqlite", "postgres"])
async def ledger(request, tmp_path):
    async with fresh_url(request.param, tmp_path) as url:
        app = Mulligan(url, settings=Settings(lease=LEASE, beat=0.2, concurrency=5))
        made = Ledger(app)
        yield made
        app.close()
        made.remove()


async def written(ledger: Ledger, text: str = "news") -> str:
    """Run the task, wait for its sink, and say the key that this must have had."""
    job = await ledger.ask.aenqueue(text)
    await job.aresult(timeout=60)
    await ledger.app.job(f"{job.id}.sink.0").aresult(timeout=60)
    return f"{job.id}.0"


async def test_what_the_sink_writes_is_there_when_its_job_is_done(ledger):
    async with working(ledger.app):
        key = await written(ledger)
        assert ledger.entries() == [("news", key)]


async def test_a_sink_that_raises_after_writing_leaves_nothing_and_is_called_again(ledger):
    calls: list[bool] = []

    def mishap() -> None:
        calls.append(True)
        if len(calls) < 3:
            raise ConnectionError("away")

    ledger.mishap = mishap
    async with working(ledger.app):
        key = await written(ledger)
        assert ledger.entries() == [("news", key)]
        history = await ledger.app.job(f"{key[:-2]}.sink.0").ahistory()
    assert [(a.type, a.message) for a in history] == [("ConnectionError", "away")] * 2


async def test_a_sink_may_ask_to_be_called_later_and_what_it_wrote_is_undone(ledger):
    calls: list[bool] = []

    def mishap() -> None:
        calls.append(True)
        if len(calls) == 1:
            raise Snooze(0)

    ledger.mishap = mishap
    async with working(ledger.app):
        key = await written(ledger)
    assert len(calls) == 2
    assert ledger.entries() == [("news", key)]


async def test_a_sink_that_never_succeeds_is_a_dead_letter_and_leaves_nothing(ledger):
    def mishap() -> None:
        raise ValueError("broken")

    ledger.mishap = mishap
    async with working(ledger.app):
        with pytest.raises(JobFailedError, match="broken"):
            await written(ledger)
        assert ledger.entries() == []
        ledger.mishap = lambda: None
        [letter] = await ledger.app.dead_letters().alist()
        assert await ledger.app.areplay([letter.id]) == [True]
        await ledger.app.job(letter.id).aresult(timeout=60)
    assert [entry for entry, _ in ledger.entries()] == ["news"]


async def test_a_reply_that_is_lost_after_the_commit_writes_nothing_twice(ledger):
    store = ledger.app.make_store()
    await store.open()
    lost: list[object] = []

    class Lossy:
        """The store, whose first answer to a transactional commit is lost."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def commit_within(self, outcome: Done, work: Callable[[object], object]) -> object:
            verdict = await store.commit_within(outcome, work)
            if not lost:
                lost.append(verdict)
                raise ConnectionError("the reply was lost")
            return verdict

    engine, running = start(ledger.app, Lossy())
    key = await written(ledger)
    engine.stop()
    await running
    await store.close()
    assert lost == ["written"]
    assert ledger.entries() == [("news", key)]


async def test_a_sink_that_is_called_again_in_its_attempt_knows_and_is_counted(ledger):
    store = ledger.app.make_store()
    await store.open()
    seen: list[tuple[int, int]] = []
    ledger.mishap = lambda: seen.append((current_job().attempt, current_job().call))

    class CutError(Exception):
        """The connection was cut after the sink, before its commit."""

    class Cut:
        """The store, whose connection is cut during the first two transactional commits."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def commit_within(self, outcome: Done, work: Callable[[Any], Any]) -> object:
            if len(seen) == 2:
                return await store.commit_within(outcome, work)

            def cut(connection: object) -> None:
                work(connection)
                raise CutError

            async def cut_later(connection: object) -> None:
                await work(connection)
                raise CutError

            with pytest.raises(CutError):
                await store.commit_within(outcome, cut_later if ledger.sink.is_async else cut)
            raise StoreUnavailableError("the server closed the connection")

    engine, running = start(ledger.app, Cut())
    key = await written(ledger)
    engine.stop()
    await running
    assert seen == [(1, 1), (1, 2), (1, 3)]
    assert ledger.entries() == [("news", key)]
    counted = (await store.counts()).ever
    assert [value for (*_, name), value in counted.items() if name == SINK_AGAIN] == [2]
    await store.close()


async def test_a_worker_that_is_presumed_dead_during_its_sink_leaves_nothing(ledger):
    """It stands still just before it commits; another worker writes, and it does not."""
    store = ledger.app.make_store()
    await store.open()
    moving, standing = asyncio.Event(), asyncio.Event()
    moving.set()
    refused: list[object] = []

    class Paused:
        """The store, as a process meets it that stands still for longer than its lease."""

        def __getattr__(self, name: str) -> object:
            operation = getattr(store, name)

            async def call(*args: object) -> object:
                await moving.wait()
                return await operation(*args)

            return call

        async def commit_within(self, outcome: Done, work: Callable[[object], object]) -> object:
            moving.clear()
            standing.set()
            await moving.wait()
            verdict = await store.commit_within(outcome, work)
            refused.append(verdict)
            return verdict

    engine, running = start(ledger.app, Paused())
    job = await ledger.ask.aenqueue("news")
    await standing.wait()
    async with working(ledger.app):
        sink = ledger.app.job(f"{job.id}.sink.0")
        await sink.aresult(timeout=60)
        moving.set()
        engine.stop()
        await running
        assert [a.type for a in await sink.ahistory()] == ["Lost"]
    await store.close()
    assert refused in ([], ["stale"])  # its attempt may have been stopped before it could try
    assert ledger.entries() == [("news", f"{job.id}.0")]


async def test_a_sink_whose_job_is_canceled_meanwhile_writes_nothing_and_says_why(ledger, caplog):
    caplog.set_level(logging.INFO, "mulligan.worker")
    store = ledger.app.make_store()
    await store.open()

    class Cancelled:
        """The store, at which an operator cancels the sink's job just before its commit."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def commit_within(self, outcome: Done, work: Callable[[object], object]) -> object:
            assert await store.cancel([outcome.lease.job], "a mistake") == [True]
            return await store.commit_within(outcome, work)

    engine, running = start(ledger.app, Cancelled())
    job = await ledger.ask.aenqueue("news")
    while "it was canceled: a mistake; " not in caplog.text:  # noqa: ASYNC110 - a log has no event
        await asyncio.sleep(0.01)
    engine.stop()
    await running
    await store.close()
    assert "is no longer held" not in caplog.text
    assert ledger.entries() == []
    assert (await ledger.app.job(f"{job.id}.sink.0").ainfo()).status == "cancelled"


def start(app: Mulligan, store: object) -> tuple[Engine, "asyncio.Future[None]"]:
    """A worker of the app on this store, its heartbeat too."""
    made: Any = store
    engine = Engine(made, app.tasks, new_worker(app), app.settings)
    return engine, asyncio.ensure_future(engine.run())


async def test_a_transactional_sink_knows_its_job(ledger):
    seen: list[tuple[str, int]] = []
    ledger.mishap = lambda: seen.append((current_job().task, current_job().attempt))
    async with working(ledger.app):
        await written(ledger)
    assert seen == [("write", 1)]


async def test_a_signal_that_a_sink_returns_undoes_what_it_wrote(ledger):
    calls: list[bool] = []
    inner, ledger.sink.function = ledger.sink.function, None

    def signal() -> RetryAfter | None:
        calls.append(True)
        return RetryAfter(0) if len(calls) == 1 else None

    async def awaited(*args: Any, **kwargs: Any) -> RetryAfter | None:
        await inner(*args, **kwargs)
        return signal()

    def plain(*args: Any, **kwargs: Any) -> RetryAfter | None:
        inner(*args, **kwargs)
        return signal()

    ledger.sink.function = awaited if ledger.sink.is_async else plain
    async with working(ledger.app):
        key = await written(ledger)
    assert len(calls) == 2
    assert ledger.entries() == [("news", key)]


async def test_a_sink_that_returns_a_coroutine_is_told_to_await_it(ledger):
    inner, ledger.sink.function = ledger.sink.function, None

    async def left(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("nothing awaits it")

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        await inner(*args, **kwargs)
        return left()

    def plain(*args: Any, **kwargs: Any) -> Any:
        inner(*args, **kwargs)
        return left()

    ledger.sink.function = awaited if ledger.sink.is_async else plain
    async with working(ledger.app):
        with pytest.raises(JobFailedError, match="the sink returned a coroutine; await it"):
            await written(ledger)
    assert ledger.entries() == []


async def test_middleware_surrounds_the_sink_within_the_commit(ledger):
    seen: list[Any] = []

    @ledger.app.middleware
    async def around(call: Callable[[], Any], job: CurrentCall) -> Any:
        value = await call()
        if job.task == "write":
            seen.append((job.attempt, job.args, ledger.entries()))
            if job.attempt == 1:
                raise ConnectionError("after the sink, before its commit")
        return value

    @ledger.app.middleware(plain_only=True)
    def in_thread(call: Callable[[], Any], job: CurrentCall) -> Any:
        seen.append("plain")
        return call()

    async with working(ledger.app):
        key = await written(ledger)
    around_plain = [] if ledger.sink.is_async else ["plain"]
    assert seen == [
        *around_plain,
        (1, ("news",), []),
        *around_plain,
        (2, ("news",), []),
    ]
    assert ledger.entries() == [("news", key)]
