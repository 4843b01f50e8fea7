"""Apps whose worker cannot start."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from mulligan import INJECTED, Mulligan, Resource


@asynccontextmanager
async def connects(app: Mulligan) -> AsyncIterator[dict[str, int]]:
    """Finds no database."""
    if app.lifespan is connects:
        raise ConnectionError("database refused")
    yield {}


broken = Mulligan(lifespan=connects)


@broken.task
def ask() -> None: ...


lacking = Mulligan()


@lacking.task
def look(*, db: Annotated[int, Resource("db")] = INJECTED) -> None: ...
