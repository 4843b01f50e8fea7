"""A forgotten await: coroutines in what a function returned."""

from collections.abc import Collection, Mapping
from inspect import isawaitable, iscoroutine
from itertools import islice
from typing import Any

# The number of items of a large value that are looked at.
MOST = 10_000
AWAIT_IT = (
    "await it; if a decorator wraps an async function, make its wrapper async def, with: return"
    " await function(…)"
)


def unawaited(value: Any) -> str | None:
    """Name the coroutine, or another awaitable, that the value is or holds; None without one.

    Coroutines are closed, so that Python does not warn of them as well.
    """
    values: list[Any] = [value]
    found: list[Any] = []
    for each in values:
        if isawaitable(each):
            found.append(each)
            if iscoroutine(each):
                each.close()
        elif isinstance(each, Mapping | list | tuple | set | frozenset):
            inner: Collection[Any] = each.values() if isinstance(each, Mapping) else each
            values += islice(inner, max(0, MOST - len(values)))
    if not found:
        return None
    name = "coroutine" if iscoroutine(found[0]) else type(found[0]).__name__
    return f"a {name}" if found[0] is value else f"a {type(value).__name__} with a {name} in it"
