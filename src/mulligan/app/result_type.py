"""The type of a task's results: how they are written, and read back."""

from collections.abc import Callable
from types import UnionType
from typing import Any, Never, NoReturn, Union, get_args, get_origin

import msgspec

from mulligan.app.annotations import hints_of, shown
from mulligan.app.types import (
    MISFIT,
    CannotCarryError,
    Codec,
    Encode,
    codec_of,
    encode_finite,
    reason,
)
from mulligan.core.errors import InvalidError
from mulligan.core.job import Job
from mulligan.core.signals import Signal

UNDECLARED = (None, Any, object, Never, NoReturn)
decode_json = msgspec.json.Decoder().decode


class Returned:
    """The type of a task's results, read once from the function's annotation."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        self.codec: Codec | None = None
        self._is_read = False

    def read_type(self) -> None:
        """Read the annotation; refuses a type that cannot be carried. NameError as `hints_of`."""
        if self._is_read:
            return
        declared = without_signals(hints_of(self._function).get("return"))
        if declared not in UNDECLARED:
            try:
                self.codec = codec_of(declared)
            except CannotCarryError as error:
                raise InvalidError(
                    f"task {self._name} returns {shown(declared)}: {error}"
                ) from error
        self._is_read = True

    @property
    def encode(self) -> Encode:
        """Writes a result as JSON, by the declared type."""
        return encode_finite if self.codec is None else self.codec.encode

    def read(self, job: Job) -> Any:
        """The result as the declared type; as JSON if none is declared.

        Refuses a result that does not fit, such as one that another release of the task stored.
        """
        stored = b"null" if job.result is None else job.result
        codec = self.codec
        if codec is None:
            return decode_json(stored)
        try:
            return codec.decode(stored)
        except MISFIT as error:
            raise InvalidError(
                f"job {job.id}: its result is not {shown(codec.kind)}, which task {self._name} says"
                f" it returns: {reason(error)}; job.info().value() gives it as it is stored"
            ) from error


def without_signals(declared: Any) -> Any:
    """The type without signals, which may be returned but are no results."""
    if is_signal(declared):
        return Any
    if get_origin(declared) not in (Union, UnionType):
        return declared
    kept = [each for each in get_args(declared) if not is_signal(each)]
    return Union[tuple(kept)] if kept else Any  # noqa: UP007 - a union of any length


def is_signal(kind: Any) -> bool:
    """Whether it is RetryAfter, Fail or Snooze."""
    return isinstance(kind, type) and issubclass(kind, Signal)
