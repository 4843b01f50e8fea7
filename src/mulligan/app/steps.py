"""Durable steps: a function whose result is recorded with the job, and not run again."""

from collections.abc import Awaitable, Callable
from functools import cache
from inspect import isawaitable, iscoroutine
from typing import Any, ParamSpec, TypeVar, cast, overload

import msgspec

from mulligan.app.annotations import hints_of, shown
from mulligan.app.result_type import UNDECLARED
from mulligan.app.types import MISFIT, CannotCarryError, Codec, codec_of, encode_finite, reason
from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError
from mulligan.core.record import checked_value
from mulligan.core.signals import Fail
from mulligan.engine.current import recording
from mulligan.engine.unawaited import AWAIT_IT, unawaited

P = ParamSpec("P")
R = TypeVar("R")
decode_json = msgspec.json.Decoder().decode


def step(name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of the function, from the record of an earlier attempt if there is one.

    It runs at least once until its result is recorded, and never after. In a coroutine use
    `astep`. A name is used once in an attempt.
    """
    check_name("step", name)
    mine, codec = recording(), result_of(name, function)
    found = mine.wait_for(lambda: mine.begin(name))
    if found is not None:
        return cast("R", codec.recorded(found))
    value = function(*args, **kwargs)
    if isawaitable(value):
        if iscoroutine(value):
            value.close()
        raise Fail(f"step {name!r} is a coroutine function; use: await astep({name!r}, …)", "step")
    written = codec.written(value)
    mine.wait_for(lambda: mine.write("step", name, written))
    return cast("R", codec.recorded(written))


@overload
async def astep(
    name: str, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
) -> R: ...
@overload
async def astep(name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
async def astep(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of the function, from the record of an earlier attempt if there is one.

    It runs at least once until its result is recorded, and never after. The function may be a
    coroutine function; a plain one runs on the loop. A name is used once in an attempt.
    """
    check_name("step", name)
    mine, codec = recording(), result_of(name, function)
    found = await mine.await_on_loop(lambda: mine.begin(name))
    if found is not None:
        return codec.recorded(found)
    value = function(*args, **kwargs)
    if isawaitable(value):
        value = await value
    written = codec.written(value)
    await mine.await_on_loop(lambda: mine.write("step", name, written))
    return codec.recorded(written)


class StepResult:
    """How the results of a step are written, and read back in the declared type."""

    def __init__(self, name: str, codec: Codec | None) -> None:
        self._name = name
        self._codec = codec

    def written(self, value: Any) -> bytes:
        """The result as JSON; one that cannot be recorded fails the job without retry."""
        try:
            encoded = (encode_finite if self._codec is None else self._codec.encode)(value)
            return checked_value(f"the result of step {self._name!r}", encoded)
        except InvalidError as error:
            raise Fail(str(error), "step") from error
        except (*MISFIT, RecursionError) as error:
            if (left := unawaited(value)) is not None:
                raise Fail(f"step {self._name!r} returned {left}; {AWAIT_IT}", "step") from error
            raise Fail(
                f"the result of step {self._name!r} cannot be recorded as JSON: {error}; return"
                " text, finite numbers, lists, dicts, or a declared type that can be carried",
                "step",
            ) from error

    def recorded(self, raw: bytes) -> Any:
        """The result as it was recorded; one that does not fit fails the job without retry."""
        if self._codec is None:
            return decode_json(raw)
        try:
            return self._codec.decode(raw)
        except MISFIT as error:
            raise Fail(
                f"the recorded result of step {self._name!r} is not {shown(self._codec.kind)}, as"
                f" the function says it returns: {reason(error)}; mend the type and replay the job,"
                " or run it anew: mulligan dead replay --from-start",
                "step",
            ) from error


def result_of(name: str, function: Callable[..., Any]) -> StepResult:
    """How the function's results are recorded; refuses a type that cannot be carried."""
    if not callable(function):
        raise Fail(
            f"step {name!r} got {repr(function)[:80]}, which is no function; give the function and"
            f" its arguments: step({name!r}, charge, order)",
            "step",
        )
    try:
        return StepResult(name, declared_codec(function))
    except TypeError:  # it cannot be hashed
        return StepResult(name, None)
    except CannotCarryError as error:
        raise Fail(f"step {name!r} returns what cannot be recorded: {error}", "step") from error


@cache
def declared_codec(function: Callable[..., Any]) -> Codec | None:
    """The codec of the type that the function says it returns; None if it says nothing."""
    try:
        declared = hints_of(function).get("return")
    except NameError:  # a name in it is not defined
        return None
    return None if declared in UNDECLARED else codec_of(declared)
