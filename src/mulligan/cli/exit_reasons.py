"""Why a worker ends by itself: it is idle, or nobody supervises it any more."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
from msgspec import Struct

from mulligan.core.durations import check_seconds
from mulligan.core.errors import StoreError
from mulligan.engine import Engine
from mulligan.supervisor.locks import is_held

log = logging.getLogger("mulligan.worker")
LOOK_EVERY = 1.0
# A worker looks so many times before its time is up.
LOOKS = 4

Command = TypeVar("Command", bound=Callable[..., Any])


def supervised(command: Command) -> Command:
    """Give the command what a supervisor says to a process that it starts."""
    name = click.option("--name", metavar="NAME", default="", help="What it is called in lists.")
    lock = click.option(
        "--supervisor", type=click.Path(path_type=Path), metavar="FILE",
        help="Its supervisor's lock file; it drains and ends when nobody holds that any more.",
    )  # fmt: skip
    grace = click.option(
        "--orphan-grace", type=float, metavar="SECONDS", default=60.0, show_default=True,
        help="How long it waits for a new supervisor before that.",
    )  # fmt: skip
    return name(lock(grace(command)))


class Reason(Protocol):
    """Something that ends a worker when it has held for long enough."""

    @property
    def words(self) -> str:
        """The reason as the log says it."""
        ...

    @property
    def seconds(self) -> float:
        """How long it must hold."""
        ...

    def holds(self, engine: Engine) -> bool:
        """Whether it holds now, and has since it was last asked."""
        ...

    async def is_sure(self, engine: Engine) -> bool:
        """Asked once it has held for its time: whether the worker is to end."""
        ...


class Idle:
    """Nothing has run, as the store had nothing to run."""

    def __init__(self, seconds: float) -> None:
        self.seconds = check_seconds("idle-exit", seconds)
        self.words = f"nothing to do for {self.seconds:g} s"
        self._started = 0
        self._asked = 1

    def holds(self, engine: Engine) -> bool:
        """Whether no attempt runs, none has started since, and the store answers.

        What was asked of it when this was last looked at, and at least one claim, must have been
        answered: a store that is away or damaged does not say that there is nothing to do.
        """
        started, self._started = self._started, engine.executor.started
        asked, self._asked = self._asked, max(1, engine.fetcher.asked)
        busy = engine.slots.holding or engine.committer.backlog
        return not busy and started == self._started and asked <= engine.fetcher.answered

    async def is_sure(self, engine: Engine) -> bool:
        """Whether nothing is due for this worker.

        What a budget or a cap holds back would have it started again at once.
        """
        try:
            return not await engine.fetcher.is_awaited()
        except (StoreError, OSError):
            return False


class Orphaned(Struct, frozen=True):
    """Nobody holds the supervisor's lock."""

    lock: Path
    seconds: float

    @property
    def words(self) -> str:
        """The reason as the log says it."""
        return f"no supervisor for {self.seconds:g} s"

    def holds(self, engine: Engine) -> bool:  # noqa: ARG002
        """Whether the lock is free."""
        return not is_held(self.lock)

    async def is_sure(self, engine: Engine) -> bool:  # noqa: ARG002
        """Whether the lock is free."""
        return not is_held(self.lock)


def reasons(idle_exit: float | None, supervisor: Path | None, orphan_grace: float) -> list[Reason]:
    """What the options say."""
    found: list[Reason] = []
    if idle_exit is not None:
        found.append(Idle(idle_exit))
    if supervisor is not None:
        found.append(Orphaned(supervisor, check_seconds("orphan-grace", orphan_grace)))
    return found


async def end_when(reason: Reason, engine: Engine) -> None:
    """Drain the worker when the reason has held for its time."""
    loop = asyncio.get_running_loop()
    pause = min(LOOK_EVERY, reason.seconds / LOOKS)
    since = loop.time()
    while not engine.stopping:
        if not reason.holds(engine):
            since = loop.time()
        elif loop.time() - since < reason.seconds:
            pass
        elif not await reason.is_sure(engine):
            since = loop.time()
        else:
            log.info("%s; ending", reason.words)
            engine.stop()
            return
        await asyncio.sleep(pause)
