"""Resources: what the lifespan of a worker yields, and tasks ask for by annotation.

The lifespan is entered before the first claim, and left after the drain.

    async def ask(question: str, *, db: Annotated[Pool, Resource("db")] = INJECTED) -> str: ...

Such a parameter is no part of the call: a job is enqueued without it, and the worker fills it in.
"""

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from msgspec import Struct

from mulligan.core.errors import InvalidError, MulliganError

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

log = logging.getLogger("mulligan.worker")
Parameter = inspect.Parameter
Yielded = Mapping[str, Any] | None
Entered = AbstractAsyncContextManager[Yielded] | AbstractContextManager[Yielded]
Lifespan = Callable[["Mulligan"], Entered]


class Resource(Struct, frozen=True):
    """Marks a parameter of a task that the worker fills in: `Annotated[Pool, Resource("db")]`."""

    name: str


class Injected:
    """INJECTED is the default of a parameter that a worker fills in; any use of it says so."""

    def __repr__(self) -> str:
        return "INJECTED"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by libraries that look at any value
            raise AttributeError(name)
        raise InvalidError(
            f".{name} of a resource that is not there: a worker fills it in; pass it by hand where"
            " you call the function directly"
        )


# So that type checkers allow `enqueue` without the resource.
INJECTED: Any = Injected()


def resources_of(
    task: str, hints: Mapping[str, Any], parameters: Sequence[Parameter]
) -> dict[str, str]:
    """Which parameters ask for which resource, by the annotations with their extras.

    Refuses one that stands before a parameter which is filled by position, and a parameter that
    would be filled in and names no resource.
    """
    asked = {
        each.name: name
        for each in parameters
        if (name := resource_in(hints.get(each.name))) is not None
    }
    for each in parameters:
        if each.default is INJECTED and each.name not in asked:
            raise InvalidError(
                f"task {task}: parameter {each.name} is INJECTED and names no resource; write it"
                f" as Annotated[..., Resource({each.name!r})]"
            )
    positional = [each for each in parameters if each.kind is not Parameter.KEYWORD_ONLY]
    before: str | None = None
    for each in positional:
        if each.name in asked:
            before = each.name
        elif before is not None and each.kind is not Parameter.VAR_KEYWORD:
            raise InvalidError(
                f"task {task}: parameter {before} is a resource and stands before {each.name},"
                f" which is filled by position; put {before} last, or after *"
            )
    return asked


def resource_in(hint: Any) -> str | None:
    """The name of the resource that an annotation asks for."""
    if get_origin(hint) is not Annotated:
        return None
    found = [each for each in get_args(hint)[1:] if isinstance(each, Resource)]
    return found[0].name if found else None


def filled(task: str, asked: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a worker fills in."""
    check_resources({task: asked}, given, "this process")
    return {parameter: given[name] for parameter, name in asked.items()}


def check_resources(
    asked: Mapping[str, Mapping[str, str]], given: Mapping[str, Any], source: str
) -> None:
    """Refuse tasks that ask for a resource which `source` does not give."""
    for task, parameters in asked.items():
        for parameter, name in parameters.items():
            if name not in given:
                has = f"gives {', '.join(map(repr, given))}" if given else "gives none"
                raise InvalidError(
                    f"task {task}: parameter {parameter} asks for resource {name!r}, and {source}"
                    f" {has}; add {name!r} to what it gives"
                )


# -- the lifespan -------------------------------------------------------------------------------


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
    """Enter the lifespan; returns how to leave it, and the resources that it yields."""
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
    """The function's name, for messages."""
    return getattr(lifespan, "__name__", None) or repr(lifespan)
