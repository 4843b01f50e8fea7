"""Plain tasks in virtual time: they run on the loop of `app.testing()`, which waits for them.

Django gives code on a loop connections of its own, and refuses to use them there. So
the loop is hidden while a task runs, which then has the connections of its test; what calls
the store has it back meanwhile.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

HIDDEN: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("mulligan_loop", default=None)


@contextmanager
def off_the_loop() -> Iterator[None]:
    """Hide the loop that runs in this thread."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - None where there is none
    token = HIDDEN.set(loop)
    asyncio._set_running_loop(None)  # noqa: SLF001 - there is no other way
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)  # noqa: SLF001
        HIDDEN.reset(token)


@contextmanager
def back_on_the_loop() -> Iterator[None]:
    """Show the loop again, if one is hidden."""
    loop = HIDDEN.get()
    if loop is None or not loop.is_running():
        yield
        return
    asyncio._set_running_loop(loop)  # noqa: SLF001
    try:
        yield
    finally:
        asyncio._set_running_loop(None)  # noqa: SLF001
