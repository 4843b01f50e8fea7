"""Resources: what the lifespan of a worker yields, and tasks ask for by annotation.

    async def ask(question: str, *, db: Annotated[Pool, Resource("db")] = INJECTED) -> str: ...

Such a parameter is no part of the call: a job is enqueued without it, and the worker fills it in.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from msgspec import Struct

from mulligan.core.errors import InvalidError

Parameter = inspect.Parameter


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

    Refuses one that stands before a parameter which is filled by position.
    """
    asked = {
        each.name: name
        for each in parameters
        if (name := resource_in(hints.get(each.name))) is not None
    }
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
