"""The app whose processes are killed. Every run of a task is written down before it does anything.

A line of the ledger is a job and the token of its lease, so that two runs under one lease show.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mulligan import Delays, Mulligan, Retry, Settings, current_job, each
from tests.failpoints.points import POINTS

# Short enough that a lost lease is found soon, long enough that a slow machine keeps its own.
LEASE, BEAT = 1.0, 0.2
PATIENT = Retry(30, Delays((0.02,)))
ONCE = Retry(1, Delays((0.02,)))
MONTH = 30 * 86_400.0


def make_app(url: str, mark: str, ledger: Path) -> Mulligan:
    """The app on this store; `mark` begins the ids of its jobs and the names of its keys."""
    app = Mulligan(url, settings=Settings(lease=LEASE, beat=BEAT, concurrency=8))
    ran = partial(write_down, ledger)
    declare_plain(app, ran)
    declare_special(app, ran, mark)
    declare_sink(app)
    return app


def write_down(ledger: Path) -> None:
    """Write down that the current attempt has begun."""
    job = current_job()
    line = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(line, f"{job.id} {job.token}\n".encode())
    os.close(line)
    POINTS.here("in the attempt")


def declare_plain(app: Mulligan, ran: Callable[[], None]) -> None:
    """Tasks that succeed, at once or after all, and those that chains are made of."""

    @app.task(retry=PATIENT)
    async def step(value: int) -> int:
        ran()
        return value + 1

    @app.task(retry=PATIENT)
    async def stumble(value: int) -> int:
        ran()
        if current_job().attempt == 1:
            raise ValueError("the first attempt never works")
        return value

    @app.task(retry=PATIENT)
    async def spread(count: int) -> list[int]:
        ran()
        return list(range(count))

    @app.task(retry=PATIENT)
    async def total(values: list[int]) -> int:
        ran()
        return sum(values)


def declare_special(app: Mulligan, ran: Callable[[], None], mark: str) -> None:
    """A task that never succeeds, one that runs alone, and one that runs by the clock."""

    @app.task(retry=PATIENT)
    async def bury(letter: dict[str, Any]) -> None:
        ran()

    @app.task(retry=ONCE, on_dead=bury)
    async def never(value: int) -> None:
        ran()
        raise ValueError("this one never works")

    @app.task(retry=PATIENT, concurrency_key=f"{mark}-limit", concurrency_limit=1)
    async def limited(value: int) -> int:
        ran()
        return value

    @app.task(name=f"{mark}-tick", every=MONTH, retry=PATIENT)
    async def tick() -> None:
        ran()


def declare_sink(app: Mulligan) -> None:
    """A sink that writes within the transaction that finishes it, where the store has such."""
    if app.url.startswith("sqlite"):

        @app.sink(transactional=True, retry=PATIENT)
        def keep(connection: Any, value: int, key: str) -> None:
            connection.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT, value INTEGER)")
            connection.execute("INSERT INTO kept VALUES (?, ?)", (key, value))

    elif app.url.startswith("postgresql"):

        @app.sink(transactional=True, retry=PATIENT)
        async def keep(connection: Any, value: int, key: str) -> None:
            await connection.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT, value INTEGER)")
            await connection.execute("INSERT INTO kept VALUES (%s, %s)", (key, value))

    else:
        return

    @app.task(retry=PATIENT, sink=keep)
    async def give(value: int) -> int:
        return value


def fan_out(app: Mulligan) -> Any:
    """A chain whose second stage has a job for each element, gathered by the third."""
    return app.tasks["spread"] | each(app.tasks["step"]) | app.tasks["total"]
