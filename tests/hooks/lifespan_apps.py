"""Apps whose worker cannot start."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from mulligan import INJECTED, CurrentCall, JobEvent, Mulligan, Resource


@asynccontextmanager
async def connects(app: Mulligan) -> AsyncIterator[dict[str, int]]:
    """Finds no database."""
    if app.lifespan is connects:
        raise ConnectionError("database refused")
    yield {}


broken = Mulligan(lifespan=connects)


@broken.task
def ask() -> None: ...


@broken.middleware
async def around(call: Callable[[], Any], job: CurrentCall) -> Any:
    """Adds nothing."""
    return await call()


@broken.on("dead")
def page(event: JobEvent) -> None:
    """Tells nobody."""


lacking = Mulligan()


@lacking.task
def look(*, db: Annotated[int, Resource("db")] = INJECTED) -> None: ...
