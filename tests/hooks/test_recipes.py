"""Three things that people write for Celery and Dramatiq, by the words of hooks.md alone."""

import logging
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from mulligan import CurrentCall, JobEvent, Mulligan, Retry

request_id: ContextVar[str] = ContextVar("request_id", default="-")
session: ContextVar[sqlite3.Connection] = ContextVar("session")
log = logging.getLogger("recipes")


def test_the_request_id_of_the_producer_is_on_every_log_line_of_its_job(caplog):
    app = Mulligan("memory://")

    class WithRequestId(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            record.request_id = request_id.get()
            return True

    @app.middleware
    async def restore(call: Callable[[], Any], job: CurrentCall) -> Any:
        token = request_id.set(job.kwargs.get("request_id", "-"))
        try:
            return await call()
        finally:
            request_id.reset(token)

    @app.task
    def deep(request_id: str = "-") -> None:
        log.info("in a plain function")

    @app.task
    async def ask(request_id: str = "-") -> None:
        log.info("in a coroutine")
        await deep.aenqueue(request_id=request_id)

    log.addFilter(seen := WithRequestId())
    try:
        with app.testing() as t, caplog.at_level(logging.INFO, "recipes"):
            request_id.set("r-1")
            ask.enqueue(request_id=request_id.get())
            request_id.set("r-2")
            ask.enqueue(request_id=request_id.get())
            request_id.set("-")
            t.drain()
    finally:
        log.removeFilter(seen)
    lines = sorted(
        (record.request_id, record.message) for record in caplog.records if record.name == "recipes"
    )
    both = ("in a coroutine", "in a plain function")
    assert lines == [(each, line) for each in ("r-1", "r-2") for line in both]


def test_a_session_per_task_is_committed_when_it_returns_and_rolled_back_when_it_raises(tmp_path):
    app = Mulligan("memory://")
    path = tmp_path / "shop.db"
    sqlite3.connect(path).execute("CREATE TABLE orders (id INTEGER)").connection.close()

    @app.middleware
    def session_per_task(call: Callable[[], Any], job: CurrentCall) -> Any:
        db = sqlite3.connect(path)
        token = session.set(db)
        try:
            with db:
                return call()
        finally:
            session.reset(token)
            db.close()

    @app.task(retry=Retry(0))
    def ship(order: int, *, fails: bool = False) -> None:
        session.get().execute("INSERT INTO orders VALUES (?)", (order,))
        if fails:
            raise ValueError("out of stock")

    with app.testing() as t:
        ship.enqueue(1)
        ship.enqueue(2, fails=True)
        t.drain()
    db = sqlite3.connect(path)
    assert db.execute("SELECT id FROM orders").fetchall() == [(1,)]
    db.close()


@pytest.fixture
def statsd():
    """A server of statsd: what it receives is text in datagrams."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(30)
        yield server


def test_timings_of_attempts_and_counts_of_ends_go_to_statsd(statsd):
    @asynccontextmanager
    async def lifespan(app: Mulligan) -> AsyncIterator[dict[str, Any]]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(statsd.getsockname())
            yield {"statsd": client}

    app = Mulligan("memory://", lifespan=lifespan)

    @app.middleware
    async def timing(call: Callable[[], Any], job: CurrentCall) -> Any:
        began = time.monotonic()
        try:
            return await call()
        finally:
            took = 1000 * (time.monotonic() - began)
            job.resources["statsd"].send(f"tasks.{job.task}:{took:.0f}|ms".encode())

    @app.on("success")
    @app.on("dead")
    def count(event: JobEvent) -> None:
        app.resources["statsd"].send(f"tasks.{event.task}.{event.name}:1|c".encode())

    @app.task(retry=Retry(0))
    def ask(*, fails: bool) -> None:
        if fails:
            raise ValueError("no")

    with app.testing() as t:
        ask.enqueue(fails=False)
        ask.enqueue(fails=True)
        t.drain()
    received = sorted(statsd.recv(100).decode().partition(":")[0] for _ in range(4))
    assert received == ["tasks.ask", "tasks.ask", "tasks.ask.dead", "tasks.ask.success"]
