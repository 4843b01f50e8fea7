"""Why a worker ends by itself: it is idle, or its supervisor is gone."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
from msgspec import Struct

from mulligan.core.checks import check_seconds
from mulligan.core.errors import StoreError
from mulligan.engine.worker import Engine

log = logging.getLogger("mulligan.worker")
LOOK_EVERY = 1.0
# How often a worker checks a reason, at least, before the reason has held long enough.
LOOKS = 4

Command = TypeVar("Command", bound=Callable[..., Any])


def supervised(command: Command) -> Command:
    """Give the command the options that a supervisor passes to its workers."""
    name = click.option("--name", metavar="NAME", default="", help="The worker's name in lists.")
    lock = click.option(
        "--supervisor", type=click.Path(path_type=Path), metavar="FILE",
        help="Its supervisor's lock file; when nobody holds the lock, the worker drains and ends.",
    )  # fmt: skip
    grace = click.option(
        "--orphan-grace", type=float, metavar="SECONDS", default=60.0, show_default=True,
        help="How long it waits for a new supervisor before it ends.",
    )  # fmt: skip
    return name(lock(grace(command)))


class ExitReason(Protocol):
    """A condition that ends a worker when it has held for long enough."""

    @property
    def words(self) -> str:
        """The reason as the log says it."""
        ...

    @property
    def seconds(self) -> float:
        """How long it must hold."""
        ...

    def holds(self, engine: Engine) -> bool:
        """Whether it holds now and has held since the last call."""
        ...

    async def is_sure(self, engine: Engine) -> bool:
        """Whether the worker should end, checked once the reason has held long enough."""
        ...


class Idle:
    """The worker runs nothing, and the store has nothing for it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = check_seconds("idle-exit", seconds)
        self.words = f"nothing to do for {self.seconds:g} s"
        self._started = 0
        self._asked = 1

    def holds(self, engine: Engine) -> bool:
        """Whether no attempt runs, none has started since the last call, and the store answers.

        The store must have answered at least one claim, and all those sent before the last call:
        a store that is away does not say that there is nothing to do.
        """
        started, self._started = self._started, engine.executor.started
        asked, self._asked = self._asked, max(1, engine.fetcher.asked)
        busy = engine.slots.holding or engine.committer.backlog
        return not busy and started == self._started and asked <= engine.fetcher.answered

    async def is_sure(self, engine: Engine) -> bool:
        """Whether nothing is due for this worker.

        A job that a budget or a cap holds back counts as due: for it the supervisor would start
        another worker at once.
        """
        try:
            return not await engine.fetcher.is_awaited()
        except (StoreError, OSError):
            return False


class Orphaned(Struct, frozen=True):
    """No supervisor runs: nobody holds its lock."""

    lock: Path
    seconds: float

    @property
    def words(self) -> str:
        """The reason as the log says it."""
        return f"no supervisor for {self.seconds:g} s"

    def holds(self, engine: Engine) -> bool:  # noqa: ARG002
        """Whether the lock is free."""
        from mulligan.supervisor.liveness import is_held  # noqa: PLC0415 - often there is none

        return not is_held(self.lock)

    async def is_sure(self, engine: Engine) -> bool:
        """Whether the lock is free."""
        return self.holds(engine)


def exit_reasons(
    idle_exit: float | None, supervisor: Path | None, orphan_grace: float
) -> list[ExitReason]:
    """The reasons that the options give."""
    found: list[ExitReason] = []
    if idle_exit is not None:
        found.append(Idle(idle_exit))
    if supervisor is not None:
        found.append(Orphaned(supervisor, check_seconds("orphan-grace", orphan_grace)))
    return found


async def end_when(reason: ExitReason, engine: Engine) -> None:
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
