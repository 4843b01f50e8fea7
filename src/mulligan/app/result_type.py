"""Converts a stored result to the return type that the task declares."""

from collections.abc import Callable
from functools import cached_property
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from mulligan.core.errors import InvalidError
from mulligan.core.job import Job
from mulligan.core.signals import Signal

UNDECLARED = (None, Any, object)
decode_json = msgspec.json.Decoder().decode


class Returned:
    """The type of a task's results, read once from the function's annotation."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function

    def read(self, job: Job) -> Any:
        """The result as the declared type; as JSON if none is declared, or none that msgspec knows.

        Refuses a result that does not fit, such as one that another release of the task stored.
        """
        stored = b"null" if job.result is None else job.result
        decoder = self._decoder
        if decoder is None:
            return decode_json(stored)
        try:
            return decoder.decode(stored)
        except NotImplementedError:
            return decode_json(stored)
        except msgspec.ValidationError as error:
            raise InvalidError(
                f"job {job.id}: its result is not {shown(self._declared)}, which task {self._name}"
                f" says it returns: {error}; job.info().value() gives it as it is stored"
            ) from error

    @cached_property
    def _declared(self) -> Any:
        # Annotations are read late, when all names in them are defined.
        return without_signals(hints_of(self._name, self._function).get("return"))

    @cached_property
    def _decoder(self) -> "msgspec.json.Decoder[Any] | None":
        if self._declared in UNDECLARED:
            return None
        try:
            return msgspec.json.Decoder(self._declared, dec_hook=not_known)
        except TypeError:
            return None


def hints_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a task's function; refuses those whose names are not defined."""
    try:
        return get_type_hints(function)
    except NameError as error:
        raise InvalidError(f"task {name}: an annotation cannot be read: {error}") from error


def without_signals(declared: Any) -> Any:
    """The type without signals, which may be returned but are no results."""
    if get_origin(declared) not in (Union, UnionType):
        return declared
    kept = [each for each in get_args(declared) if not is_signal(each)]
    return Union[tuple(kept)] if kept else Any  # noqa: UP007 - a union of any length


def is_signal(kind: Any) -> bool:
    """Whether it is RetryAfter, Fail or Snooze."""
    return isinstance(kind, type) and issubclass(kind, Signal)


def not_known(_kind: type, _value: Any) -> Any:
    """Refuse a type that msgspec does not know."""
    raise NotImplementedError


def shown(kind: Any) -> str:
    """A type as errors name it."""
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
