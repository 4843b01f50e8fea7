"""A task's arguments: checked when enqueued, converted to the declared types when run."""

import contextlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from mulligan.app.resources import resources_of
from mulligan.app.result_type import hints_of
from mulligan.core.checks import DEPTH_LIMIT, check_depth, too_deep
from mulligan.core.errors import InvalidError
from mulligan.core.job import Call
from mulligan.core.signals import Fail

encode = msgspec.json.Encoder().encode
SHOWN_LIMIT = 80
# Types that JSON keeps unchanged; numbers within their limits.
SIMPLE = {int, str, bool}
INT_LEAST, INT_MOST = -(2**63), 2**64 - 1
Parameter = inspect.Parameter


class Types:
    """The declared types of a function's parameters; None where any JSON will do."""

    def __init__(self, signature: inspect.Signature, hints: Mapping[str, Any]) -> None:
        declared: dict[str, Any] = {}
        self.positional: list[Any] = []
        self.rest: Any = None
        self.extra: Any = None
        for name, parameter in signature.parameters.items():
            hint = hints.get(name)
            kind = declared[name] = None if hint in (Any, object) else hint
            match parameter.kind:
                case Parameter.VAR_POSITIONAL:
                    self.rest = kind
                case Parameter.VAR_KEYWORD:
                    self.extra = kind
                case Parameter.KEYWORD_ONLY:
                    pass
                case _:
                    self.positional.append(kind)
        self.declared = declared
        self.names = list(declared)
        self.plain = all(each is None for each in declared.values())
        simple = len(declared) == len(self.positional) and SIMPLE.issuperset(self.positional)
        self._simple = list(self.positional) if simple else None
        self._numbers = [index for index, kind in enumerate(self.positional) if kind is int]

    def fit(self, args: tuple[Any, ...]) -> bool:
        """Whether these are all arguments, and all simple: a quick check that most calls pass."""
        if [*map(type, args)] != self._simple:
            return False
        for index in self._numbers:  # noqa: SIM110 - a generator would take twice as long
            if not INT_LEAST <= args[index] <= INT_MOST:
                return False
        return True


class Arguments:
    """What a function takes, read once from its signature and annotations."""

    def __init__(self, name: str, function: Callable[..., Any], *, skip: int = 0) -> None:
        self._name = name
        self._function = function
        whole = inspect.signature(function)
        # The worker passes the first ones, which are no part of the call.
        self.signature = whole.replace(parameters=list(whole.parameters.values())[skip:])
        # The parameters that ask for a resource, which the worker fills in too.
        self.resources: dict[str, str] = {}
        self._types: Types | None = None
        with contextlib.suppress(NameError):  # read again at the first call
            self._leave_out_resources()

    def pack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """The call as JSON; refuses what the function does not take or JSON cannot carry."""
        types = self._types or self._read()
        simple = not kwargs and types.fit(args)
        if not simple:
            self._check_all(types, args, kwargs)
        try:
            packed = encode(args), encode(kwargs) if kwargs else b"{}"
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidError(
                f"task {self._name}: the arguments cannot be written as JSON: {error};"
                " pass text, numbers, lists and dicts, or an id to look up"
            ) from error
        except RecursionError as error:
            raise InvalidError(too_deep(f"task {self._name}: an argument")) from error
        if not simple:
            for each in packed:
                check_depth(f"task {self._name}: an argument", each, around=1)
        return packed

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Refuse what the function does not take."""
        self._bind(args, kwargs)

    def unpack(self, call: Call) -> tuple[list[Any], dict[str, Any]]:
        """The stored arguments in the types that the function declares."""
        types = self._types or self._read()
        args, kwargs = call.args, call.kwargs
        if self.resources and (given := self.resources.keys() & kwargs):
            raise Fail(self._filled_in(given.pop()), "signature")
        if types.plain:
            return args, kwargs
        declared = types.positional
        if list(map(type, args)) != declared:
            if len(args) > len(declared):
                declared = declared + [types.rest] * (len(args) - len(declared))
            args = [
                value if to is None or type(value) is to else convert(value, to)
                for value, to in zip(args, declared, strict=False)
            ]
        if kwargs:
            kwargs = {
                name: value
                if (to := types.declared.get(name, types.extra)) is None
                else convert(value, to)
                for name, value in kwargs.items()
            }
        return args, kwargs

    def _check_all(self, types: Types, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if kwargs or len(args) != len(types.positional) or len(types.declared) != len(args):
            self._bind(args, kwargs)
        for index, value in enumerate(args):
            known = index < len(types.positional)
            declared = types.positional[index] if known else types.rest
            self._check(types.names[index] if known else f"number {index + 1}", declared, value)
        for name, value in kwargs.items():
            self._check(name, types.declared.get(name, types.extra), value)

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self.resources and (given := self.resources.keys() & kwargs):
            raise InvalidError(self._filled_in(given.pop()))
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidError(
                f"task {self._name}{self.signature} cannot be called so: {error}"
            ) from error

    def _check(self, name: str, declared: Any, value: Any) -> None:
        if declared is str and type(value) is str:
            return
        if declared is None or type(value) in (int, float):
            self._check_json(name, value)
        if declared is None or type(value) is declared is int:
            return
        try:
            convert(msgspec.to_builtins(value, str_keys=True), declared)
        except RecursionError as error:
            raise InvalidError(too_deep(f"task {self._name}: argument {name}")) from error
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            kind = getattr(declared, "__name__", None) or str(declared)
            raise InvalidError(
                f"task {self._name}: argument {name}={shown(value)} is not {kind}: {error}"
            ) from error

    def _check_json(self, name: str, value: Any, depth: int = 0) -> None:
        """Refuse a value, for a parameter without annotation, that JSON would change."""
        match value:
            case None | bool() | str():
                return
            case int() if INT_LEAST <= value <= INT_MOST:
                return
            case float() if math.isfinite(value):
                return
            case list() | tuple() if depth < DEPTH_LIMIT:
                for each in value:
                    self._check_json(name, each, depth + 1)
            case dict() if depth < DEPTH_LIMIT and all(type(key) is str for key in value):
                for each in value.values():
                    self._check_json(name, each, depth + 1)
            case _:
                raise InvalidError(
                    f"task {self._name}: argument {name} has {type(value).__name__} {shown(value)},"
                    " which JSON cannot carry; annotate the parameter with its type, or pass text,"
                    " numbers of 64 bits, lists, and dicts of text keys,"
                    f" at most {DEPTH_LIMIT} levels deep"
                )

    def _read(self) -> Types:
        """Read the annotations, at the first call, when all names in them are defined."""
        if self._types is None:
            hints = hints_of(self._name, self._function)
            self._leave_out_resources()
            self._types = Types(self.signature, hints)
        return self._types

    def _leave_out_resources(self) -> None:
        """Take the parameters that ask for a resource out of the signature."""
        hints = get_type_hints(self._function, include_extras=True)
        parameters = list(self.signature.parameters.values())
        self.resources |= resources_of(self._name, hints, parameters)
        called = [each for each in parameters if each.name not in self.resources]
        self.signature = self.signature.replace(parameters=called)

    def _filled_in(self, parameter: str) -> str:
        return (
            f"task {self._name}: {parameter} is resource {self.resources[parameter]!r}, which the"
            " worker fills in; leave it out of the call"
        )


def convert(value: Any, to: Any) -> Any:
    """The JSON value as the declared type; keys of objects may be text for another type."""
    return msgspec.convert(value, to, builtin_types=(), str_keys=True)


def shown(value: Any) -> str:
    """The value for an error message, cut short."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a value of any class, that may be broken or endless
        return "…"
    return text if len(text) <= SHOWN_LIMIT else text[: SHOWN_LIMIT - 1] + "…"
