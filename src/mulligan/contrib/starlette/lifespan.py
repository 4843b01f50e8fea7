"""The lifespan: opens the app with the application around it, and closes it at the end."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

from starlette.requests import HTTPConnection

from mulligan.app import Mulligan
from mulligan.core.errors import InvalidError, MulliganError
from mulligan.server.mount import STATE, Opened

Entered = AbstractAsyncContextManager[Mapping[str, Any] | None]
Lifespan = Callable[[Any], Entered]
LifespanWithState = Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def lifespan(app: Mulligan, own: Lifespan | None = None) -> LifespanWithState:
    """The lifespan of an application that enqueues: `FastAPI(lifespan=lifespan(app))`.

    It connects to the store on the application's loop, and closes the app at the end. `own` is a
    lifespan of yours: it is entered when the app is open and left before it is closed, and what it
    yields is in `request.state` as ever. When the web server is asked to stop, streams are ended;
    servers would wait for them otherwise.
    """
    if own is not None and not callable(own):
        raise InvalidError(
            f"lifespan {own!r} must be a function of the application that returns an async context"
            " manager; decorate yours with contextlib.asynccontextmanager"
        )

    @asynccontextmanager
    async def surrounding(application: Any) -> AsyncIterator[dict[str, Any]]:
        opened = Opened(app)
        try:
            async with app.connected(), entered(own, application) as state:
                with stopped_by_signals(opened):
                    yield {**(state or {}), STATE: opened}
        finally:
            opened.stop()
            await opened.close()
            app.close()

    return surrounding


@asynccontextmanager
async def entered(
    own: Lifespan | None, application: Any
) -> AsyncIterator[Mapping[str, Any] | None]:
    """Surrounds the application with a lifespan of the user's, if there is one."""
    if own is None:
        yield None
        return
    context: Any = own(application)
    if not isinstance(context, AbstractAsyncContextManager):
        name = getattr(own, "__name__", own)
        if hasattr(context, "close"):
            context.close()
        raise InvalidError(
            f"lifespan {name} returned {type(context).__name__}, which is no async context manager;"
            " decorate it with contextlib.asynccontextmanager"
        )
    async with context as state:
        yield state


@contextmanager
def stopped_by_signals(opened: Opened) -> Iterator[None]:
    """End streams when the process is asked to stop, and then do what was done before.

    A web server waits for every response before it leaves the lifespan, and a stream never ends by
    itself. Only the main thread may say what a signal does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def stop(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(opened.stop)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    chained = [number for number, handler in before.items() if callable(handler)]
    for number in chained:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in chained:
            if signal.getsignal(number) is stop:
                signal.signal(number, before[number])


def get_app(connection: HTTPConnection) -> Mulligan:
    """The app of the lifespan, as a dependency: `Annotated[Mulligan, Depends(get_app)]`."""
    return opened_of(connection).app


def opened_of(connection: HTTPConnection) -> Opened:
    """What the lifespan has opened."""
    opened = getattr(connection.state, STATE, None)
    if not isinstance(opened, Opened):
        raise MulliganError(
            "no app is open in this application; give it lifespan=lifespan(app), and in tests use"
            " its client as a context manager: with TestClient(api) as client"
        )
    return opened
