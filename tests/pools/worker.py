"""Workers with real child processes, in the process of the test."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mulligan import Mulligan
from mulligan.app.worker import new_worker, work
from mulligan.engine.worker import Engine


@asynccontextmanager
async def working(app: Mulligan, *, drain: bool = True, **options: Any) -> AsyncIterator[Engine]:
    """A worker of the app, drained at the end, or stopped at once."""
    ready: asyncio.Future[Engine] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(work(app, new_worker(app, **options), ready.set_result))
    await asyncio.wait([ready, running], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    engine = ready.result()
    try:
        yield engine
    finally:
        engine.stop()
        if not drain:
            engine.stop()
        await running


def is_running(pid: int) -> bool:
    """Whether the process is there and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def until(true: Callable[[], bool]) -> None:
    """Look until it is so; pytest's timeout is the limit."""
    while not true():  # noqa: ASYNC110 - another process says so
        await asyncio.sleep(0.01)


async def pids_in(file: Path) -> list[int]:
    """The pids that a task has written there."""
    found: list[int] = []

    def written() -> bool:
        found[:] = [int(pid) for pid in file.read_text().split()] if file.exists() else []
        return len(found) == 2

    await until(written)
    return found


async def gone(*pids: int) -> None:
    """Wait until none of the processes runs."""
    await until(lambda: not any(is_running(pid) for pid in pids))


ME = os.getpid()
