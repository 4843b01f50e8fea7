"""The lifespan of a worker: entered before its first claim, left after its drain."""

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from mulligan.app.resources import check_resources
from mulligan.core.errors import InvalidError, MulliganError

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

log = logging.getLogger("mulligan.worker")
Yielded = Mapping[str, Any] | None
Entered = AbstractAsyncContextManager[Yielded] | AbstractContextManager[Yielded]
Lifespan = Callable[["Mulligan"], Entered]


def check_lifespan(lifespan: object) -> None:
    """Refuse what is no context manager function."""
    remedy = "decorate it with contextlib.asynccontextmanager, or contextmanager if it is plain"
    if inspect.isasyncgenfunction(lifespan) or inspect.isgeneratorfunction(lifespan):
        raise InvalidError(f"lifespan {name_of(lifespan)} is a generator function; {remedy}")
    if not callable(lifespan) or inspect.iscoroutinefunction(lifespan):
        raise InvalidError(
            f"lifespan {lifespan!r} must be a function of the app that returns a context manager;"
            f" let it yield once, and {remedy}"
        )


@asynccontextmanager
async def entered(app: "Mulligan") -> AsyncIterator[None]:
    """Surrounds the work of a worker: the app has its resources meanwhile.

    If the lifespan raises on entry, or does not yield what a task asks for, nothing is run. If it
    raises on exit, that is logged: the work is done.
    """
    if app.lifespan is None:
        check_resources(app.asked_resources, {}, "the app has no lifespan, which")
        yield
        return
    name = name_of(app.lifespan)
    context, given = await enter(app, app.lifespan)
    try:
        check_resources(app.asked_resources, given, f"lifespan {name}")
        app.resources = given
        yield
    finally:
        app.resources = {}
        await leave(name, context)


async def enter(app: "Mulligan", lifespan: Lifespan) -> tuple[Entered, Mapping[str, Any]]:
    """Enter the lifespan; what it is left by, and the resources that it yields."""
    name = name_of(lifespan)
    try:
        context = lifespan(app)
        given = await begin(name, context)
    except Exception as error:
        log.exception("lifespan %s failed at the start; nothing was claimed", name)
        raise MulliganError(
            f"lifespan {name} failed at the start, and nothing was claimed:"
            f" {type(error).__name__}: {error}"
        ) from error
    if given is None:
        return context, {}
    if not isinstance(given, Mapping):
        await leave(name, context)
        raise InvalidError(
            f"lifespan {name} yielded {given!r}; yield a mapping from names to resources, such as"
            ' {"db": pool}, or nothing'
        )
    return context, given


async def begin(name: str, context: Any) -> Any:
    """Enter either kind of context manager; refuses anything else."""
    if isinstance(context, AbstractAsyncContextManager):
        return await context.__aenter__()
    if isinstance(context, AbstractContextManager):
        return context.__enter__()
    raise InvalidError(f"lifespan {name} returned {context!r}; it must return a context manager")


async def leave(name: str, context: Entered) -> None:
    """Leave the lifespan; what it raises is logged."""
    try:
        if isinstance(context, AbstractAsyncContextManager):
            await context.__aexit__(None, None, None)
        else:
            context.__exit__(None, None, None)
    except Exception:
        log.exception("lifespan %s failed at the end; the outcomes of all jobs are written", name)


def name_of(lifespan: object) -> str:
    """The function's name, for people."""
    return getattr(lifespan, "__name__", None) or repr(lifespan)
