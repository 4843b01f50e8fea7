"""Processes of the app on a store: workers, and one that dies in the middle of an operation."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any, Literal

from mulligan.app.worker import new_worker, work
from mulligan.core.outcome import Again, Outcome, Verdict
from mulligan.core.worker import Worker
from mulligan.stores.contract import Store
from tests.engine.real_engine import until
from tests.lessons.app import LEASE, LEDGER, URL, app

Moment = Literal["before", "after"]


class Processes:
    """Starts processes on a store and ends those that are left."""

    def __init__(self, url: str, folder: Path) -> None:
        self._ledger = folder / "ledger"
        self._environment = {**os.environ, URL: url, LEDGER: str(self._ledger)}
        self._started: list[Popen[bytes]] = []

    def worker(self, *options: str) -> "Popen[bytes]":
        """A worker, as `mulligan worker` starts it."""
        return self._start("mulligan", "worker", "tests.lessons.app:app", *options)

    def that_dies(self, what: str, moment: str = "") -> "Popen[bytes]":
        """A process that is killed while it does this: see `main`."""
        return self._start("tests.lessons.processes", what, moment)

    def ledger(self) -> list[str]:
        """What the attempts noted, in all processes."""
        return self._ledger.read_text().splitlines() if self._ledger.exists() else []

    def _start(self, module: str, *arguments: str) -> "Popen[bytes]":
        command = [sys.executable, "-m", module, *arguments]
        started = Popen(command, env=self._environment)
        self._started.append(started)
        return started

    def end(self) -> None:
        """Kill what still runs."""
        for each in self._started:
            each.kill()
            each.wait()


@contextmanager
def processes(url: str, folder: Path) -> Iterator[Processes]:
    """Processes on the store, none of which is left behind."""
    started = Processes(url, folder)
    try:
        yield started
    finally:
        started.end()


def die() -> None:
    """As if the power went."""
    os.kill(os.getpid(), signal.SIGKILL)


async def reap_and_die() -> None:
    """Reclaim what dead workers hold, and die before it is said what becomes of it."""
    store = app.make_store()
    await store.open()

    async def reclaimed() -> bool:
        return bool(await store.reclaim(10, Worker("reaper", lease=LEASE)))

    await until(reclaimed)
    die()


async def retry_and_die(moment: Moment) -> None:
    """Work, and die around the first commit of a retry."""
    kind: Any = type(app.make_store())
    commit = kind.commit

    async def deadly(store: Store, outcomes: Sequence[Outcome]) -> list[Verdict]:
        retries = any(isinstance(each, Again) for each in outcomes)
        if retries and moment == "before":
            die()
        verdicts: list[Verdict] = await commit(store, outcomes)
        if retries:
            die()
        return verdicts

    kind.commit = deadly
    await work(app, new_worker(app))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["reaping", _]:
            asyncio.run(reap_and_die())
        case ["retrying", ("before" | "after") as said]:
            asyncio.run(retry_and_die(said))
