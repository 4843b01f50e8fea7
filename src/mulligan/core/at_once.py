"""Runs coroutines that never wait."""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as answer:
        value: T = answer.value
        return value
    coroutine.close()
    raise RuntimeError("the operation waited, and there is no event loop to wait on")
