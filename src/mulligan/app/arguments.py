"""A task's arguments: checked when enqueued, converted to the declared types when run."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from mulligan.app.annotations import hints_of, shown, signature_of
from mulligan.app.partial import Bound
from mulligan.app.resources import resources_of
from mulligan.app.types import (
    MISFIT,
    CannotCarryError,
    Codec,
    codec_of,
    encode,
    encode_finite,
    reason,
)
from mulligan.core.checks import DEPTH_LIMIT, check_depth, too_deep
from mulligan.core.errors import InvalidError
from mulligan.core.job import Call
from mulligan.core.signals import Fail

SHOWN_LIMIT = 80
# Types that JSON keeps unchanged; numbers within their limits.
SIMPLE = {int, str, bool}
INT_LEAST, INT_MOST = -(2**63), 2**64 - 1
Kind = inspect.Parameter
POSITIONAL = (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD)
WAYS: dict[Any, Literal["positional", "either", "keyword", "rest", "extra"]] = {
    Kind.POSITIONAL_ONLY: "positional",
    Kind.POSITIONAL_OR_KEYWORD: "either",
    Kind.KEYWORD_ONLY: "keyword",
    Kind.VAR_POSITIONAL: "rest",
    Kind.VAR_KEYWORD: "extra",
}


class Parameter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A parameter of a task, as data: for forms and for other programs.

    `schema` is a JSON schema, empty where any JSON will do. `given` says how it is passed: by
    position, by keyword, either way, or as all the rest (`*args`) and all that is extra
    (`**kwargs`). `default` is JSON; it is missing if there is none, or none that JSON can carry.
    """

    name: str
    type: str
    schema: dict[str, Any]
    required: bool
    given: Literal["positional", "either", "keyword", "rest", "extra"]
    default: Any | UnsetType = UNSET


class Types:
    """The codecs of a function's parameters; None where any JSON will do."""

    def __init__(self, codecs: Mapping[str, Codec | None], signature: inspect.Signature) -> None:
        self.declared = codecs
        self.names = list(codecs)
        self.positional: list[Codec | None] = []
        self.rest: Codec | None = None
        self.extra: Codec | None = None
        for name, parameter in signature.parameters.items():
            match parameter.kind:
                case Kind.VAR_POSITIONAL:
                    self.rest = codecs[name]
                case Kind.VAR_KEYWORD:
                    self.extra = codecs[name]
                case Kind.KEYWORD_ONLY:
                    pass
                case _:
                    self.positional.append(codecs[name])
        self.plain = all(each is None for each in codecs.values())
        self.kinds = [None if each is None else each.kind for each in self.positional]
        simple = len(codecs) == len(self.kinds) and all(each in SIMPLE for each in self.kinds)
        self._simple = self.kinds if simple else None
        self._numbers = [index for index, kind in enumerate(self.kinds) if kind is int]

    def fit(self, args: tuple[Any, ...]) -> bool:
        """Whether these are all arguments, and all simple: a quick check that most calls pass."""
        if [*map(type, args)] != self._simple:
            return False
        for index in self._numbers:  # noqa: SIM110 - a generator would take twice as long
            if not INT_LEAST <= args[index] <= INT_MOST:
                return False
        return True

    def at(self, index: int) -> tuple[str, Codec | None]:
        """The name and the codec of the argument at this position."""
        if index < len(self.positional):
            return self.names[index], self.positional[index]
        return f"number {index + 1}", self.rest


class Arguments:
    """What a function takes, read once from its signature and annotations."""

    def __init__(self, name: str, function: Callable[..., Any], *, skip: int = 0) -> None:
        self._name = name
        self._function = function
        try:
            whole = signature_of(function)
        except ValueError as error:
            raise InvalidError(
                f"task {name}: what it takes cannot be read: {error}; call it in a function of"
                " your own"
            ) from error
        # The worker passes the first ones, which are no part of the call.
        self.signature = whole.replace(parameters=list(whole.parameters.values())[skip:])
        # The parameters that ask for a resource, which the worker fills in too.
        self.resources: dict[str, str] = {}
        self._types: Types | None = None

    def pack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """The call as JSON; refuses what the function does not take or JSON cannot carry."""
        types = self._types or self.read_types()
        simple = not kwargs and types.fit(args)
        listed, named = (args, kwargs) if simple else self._checked(types, args, kwargs)
        try:
            if simple:
                return encode(listed), b"{}"
            packed = encode_finite(listed), encode_finite(named) if named else b"{}"
        except RecursionError as error:
            raise InvalidError(too_deep(f"task {self._name}: an argument")) from error
        except MISFIT as error:
            raise InvalidError(
                f"task {self._name}: the arguments cannot be written as JSON: {error};"
                " pass text, numbers, lists and dicts, or an id to look up"
            ) from error
        for each in packed:
            check_depth(f"task {self._name}: an argument", each, around=1)
        return packed

    def bind(self, kwargs: Mapping[str, Any]) -> Bound:
        """Some of the arguments, checked, to be given before the others.

        Leading parameters are bound by position, so that the result goes to the first one left.
        """
        types = self._types or self.read_types()
        self._bind((), kwargs, partly=True)
        raw = {
            name: self._pack_one(name, types.declared.get(name, types.extra), value)
            for name, value in kwargs.items()
        }
        leading: list[str] = []
        for name in types.names[: len(types.positional)]:
            if name not in kwargs:
                break
            leading.append(name)
        return Bound(
            tuple(kwargs[name] for name in leading),
            {name: value for name, value in kwargs.items() if name not in leading},
            tuple(raw[name] for name in leading),
            {name: value for name, value in raw.items() if name not in leading},
        )

    def codec_after(self, bound: Bound) -> Codec | None:
        """The codec of the parameter that the result before goes to; None if any JSON will do."""
        types = self._types or self.read_types()
        return types.at(len(bound.args))[1]

    def bind_all(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
        """All the arguments, checked: a stage that is called with them ignores the result."""
        packed = self.pack(args, kwargs)
        return Bound(
            args,
            dict(kwargs),
            tuple(msgspec.json.decode(packed[0], type=list[Raw])),
            msgspec.json.decode(packed[1], type=dict[str, Raw]),
            ignores=True,
        )

    def _pack_one(self, name: str, codec: Codec | None, value: Any) -> Raw:
        what = f"task {self._name}: argument {name}"
        try:
            packed = encode_finite(self._check(name, codec, value))
        except InvalidError:
            raise
        except MISFIT as error:
            raise InvalidError(f"{what} cannot be written as JSON: {error}") from error
        check_depth(what, packed)
        return Raw(packed)

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Refuse what the function does not take."""
        self._bind(args, kwargs)

    def unpack(self, call: Call) -> tuple[list[Any], dict[str, Any]]:
        """The stored arguments in the types that the function declares; Fail if they do not fit."""
        types = self._types or self.read_types()
        args, kwargs = call.args, call.kwargs
        if self.resources and (given := self.resources.keys() & kwargs):
            raise Fail(self._filled_in(given.pop()), "signature")
        if kwargs or len(args) != len(types.declared):
            self._check_complete(args, kwargs)
        if types.plain:
            return args, kwargs
        if list(map(type, args)) != types.kinds:
            args = [self._load(*types.at(index), value) for index, value in enumerate(args)]
        if kwargs:
            kwargs = {
                name: self._load(name, types.declared.get(name, types.extra), value)
                for name, value in kwargs.items()
            }
        return args, kwargs

    def parameters(self) -> list[Parameter]:
        """Each parameter with its type and its default; without types, if they are not read."""
        declared = {} if self._types is None else self._types.declared
        return [
            described(parameter, declared.get(name))
            for name, parameter in self.signature.parameters.items()
        ]

    def read_types(self) -> Types:
        """Read the annotations; refuses a type that cannot be carried. NameError as `hints_of`."""
        if self._types is None:
            hints = hints_of(self._function)
            self._leave_out_resources(hints)
            names = self.signature.parameters
            codecs = {name: self._codec(name, hints.get(name)) for name in names}
            self._types = Types(codecs, self.signature)
        return self._types

    def _codec(self, name: str, kind: Any) -> Codec | None:
        if kind in (None, Any, object):
            return None
        try:
            return codec_of(kind)
        except CannotCarryError as error:
            raise InvalidError(
                f"task {self._name}: parameter {name} is {shown(kind)}: {error}"
            ) from error

    def _checked(
        self, types: Types, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments as JSON would give them, each checked."""
        if kwargs or len(args) != len(types.positional) or len(types.declared) != len(args):
            self._bind(args, kwargs)
        return (
            [self._check(*types.at(index), value) for index, value in enumerate(args)],
            {
                name: self._check(name, types.declared.get(name, types.extra), value)
                for name, value in kwargs.items()
            },
        )

    def _bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, partly: bool = False
    ) -> None:
        if self.resources and (given := self.resources.keys() & kwargs):
            raise InvalidError(self._filled_in(given.pop()))
        try:
            (self.signature.bind_partial if partly else self.signature.bind)(*args, **kwargs)
        except TypeError as error:
            raise InvalidError(
                f"task {self._name}{self.signature} cannot be called so: {error}"
            ) from error

    def _check_complete(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise Fail if the stored call lacks an argument: the task has changed since."""
        missing = [
            name
            for index, (name, parameter) in enumerate(self.signature.parameters.items())
            if parameter.default is Kind.empty
            and name not in kwargs
            and (
                parameter.kind is Kind.KEYWORD_ONLY
                or (index >= len(args) and parameter.kind in POSITIONAL)
            )
        ]
        if missing:
            names = ", ".join(missing)
            raise Fail(
                f"task {self._name}{self.signature} needs {names}, and the job was stored without;"
                f" give {names} a default and replay the job, or enqueue it again with {names}",
                "signature",
            )

    def _check(self, name: str, codec: Codec | None, value: Any) -> Any:
        if codec is None or type(value) in (int, float):
            self._check_json(name, value)
        if codec is None or (type(value) is codec.kind and codec.kind in SIMPLE):
            return value
        try:
            dumped = codec.dump(value)
            codec.load(dumped)
        except RecursionError as error:
            raise InvalidError(too_deep(f"task {self._name}: argument {name}")) from error
        except MISFIT as error:
            raise InvalidError(
                f"task {self._name}: argument {name}={cut(value)} is not {shown(codec.kind)}:"
                f" {reason(error)}"
            ) from error
        return dumped

    def _load(self, name: str, codec: Codec | None, value: Any) -> Any:
        if codec is None or type(value) is codec.kind:
            return value
        try:
            return codec.load(value)
        except MISFIT as error:
            raise Fail(
                f"argument {name} is not {shown(codec.kind)}: {reason(error)}", "arguments"
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
                    f"task {self._name}: argument {name} has {type(value).__name__} {cut(value)},"
                    " which JSON cannot carry; annotate the parameter with its type, or pass text,"
                    " numbers of 64 bits, lists, and dicts of text keys,"
                    f" at most {DEPTH_LIMIT} levels deep"
                )

    def _leave_out_resources(self, hints: Mapping[str, Any]) -> None:
        """Take the parameters that ask for a resource out of the signature."""
        parameters = list(self.signature.parameters.values())
        self.resources |= resources_of(self._name, hints, parameters)
        called = [each for each in parameters if each.name not in self.resources]
        self.signature = self.signature.replace(parameters=called)

    def _filled_in(self, parameter: str) -> str:
        return (
            f"task {self._name}: {parameter} is resource {self.resources[parameter]!r}, which the"
            " worker fills in; leave it out of the call"
        )


def described(parameter: inspect.Parameter, codec: Codec | None) -> Parameter:
    """The parameter as data."""
    default: Any = UNSET
    if parameter.default is not parameter.empty:
        try:
            default = msgspec.json.decode(encode_finite(parameter.default))
        except MISFIT:
            default = UNSET
    return Parameter(
        name=parameter.name,
        type="any" if codec is None else shown(codec.kind),
        schema={} if codec is None else schema_of(codec),
        required=parameter.default is parameter.empty
        and parameter.kind not in (Kind.VAR_POSITIONAL, Kind.VAR_KEYWORD),
        given=WAYS[parameter.kind],
        default=default,
    )


def schema_of(codec: Codec) -> dict[str, Any]:
    """The JSON schema of a type; empty if its library can give none."""
    try:
        return codec.schema()
    except Exception:  # noqa: BLE001 - a model may have fields or hooks without a schema
        return {}


def cut(value: Any) -> str:
    """The value for an error message, cut short."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a value of any class, that may be broken or endless
        return "…"
    return text if len(text) <= SHOWN_LIMIT else text[: SHOWN_LIMIT - 1] + "…"
