"""The result gate: which return values of a task are good."""

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Any

from mulligan.app.annotations import hints_of, shown
from mulligan.app.result_type import without_signals
from mulligan.app.types import MISFIT, CannotCarryError, codec_of
from mulligan.core.errors import InvalidError

Gate = Callable[[Any], bool]


def gate_of(accept: object, function: Callable[..., Any]) -> Gate | None:
    """The result gate that `accept` gives: a predicate, a type that results must have, or none.

    True stands for the return annotation of the function.
    """
    if accept is None or accept is False:
        return None
    if accept is True:
        return fits(returned_by(function))
    if isinstance(accept, type | UnionType) or hasattr(accept, "__origin__"):
        return fits(accept)
    if inspect.iscoroutinefunction(accept):
        raise InvalidError(
            f"accept {accept!r} is a coroutine function; give a plain one, which answers at once"
        )
    if callable(accept):
        return accept
    raise InvalidError(f"accept {accept!r} must be a predicate, a type, or True for the annotation")


def returned_by(function: Callable[..., Any]) -> Any:
    """The return annotation of the function."""
    try:
        returned = hints_of(function).get("return")
    except NameError as error:
        raise InvalidError(
            f"accept=True on {function.__name__}: its annotations cannot be read here: {error};"
            " define the type before it, or give a predicate"
        ) from error
    if returned is None:
        raise InvalidError(
            f"accept=True needs a return annotation on {function.__name__}; add one,"
            " or give a predicate"
        )
    return without_signals(returned)


def fits(kind: Any) -> Gate:
    """A gate that passes results which have this type once they are JSON."""
    try:
        codec = codec_of(kind)
    except (CannotCarryError, NameError) as error:
        raise InvalidError(
            f"accept {shown(kind)} is no type that a result can be held to: {error}"
        ) from error

    def gate(value: Any) -> bool:
        try:
            codec.load(codec.dump(value))
        except MISFIT:
            return False
        return True

    return gate
