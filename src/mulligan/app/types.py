"""How values become JSON and come back: a codec for each declared type, made once.

msgspec writes and reads what it knows: dataclasses, structs, attrs classes, TypedDicts, enums,
dates. What has anything of pydantic in it is written and read by pydantic, in its JSON mode and
by the names of fields; if it also has something that pydantic does not know, such as a struct,
msgspec does the whole and pydantic only its own models. Neither pydantic nor attrs is imported
here: a program that declares one of their types has imported them.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin

import msgspec
from msgspec import inspect as shapes

from mulligan.app.annotations import (
    PLAIN,
    has_fields,
    is_model,
    is_pydantic,
    is_text,
    others_in,
    parts_of,
    shown,
)
from mulligan.core.checks import all_finite
from mulligan.core.gather import Failure, failure_from, failure_value

Encode = Callable[[Any], bytes]
# What msgspec or pydantic raise for a value that does not fit, or cannot be JSON.
MISFIT = (TypeError, ValueError, OverflowError)
# Types with keys, and types that those may not be.
DICTS = (dict, Mapping, MutableMapping)
NO_KEYS = (bool, NoneType, tuple, list, set, frozenset, dict)
# How many of pydantic's complaints a message tells.
SHOWN = 3


class CannotCarryError(Exception):
    """Values of the type cannot be written as JSON and read back; says why, and what to do."""


class Codec:
    """Writes and reads values of one type, by msgspec. Misfits raise a ValueError or TypeError."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def dump(self, value: Any) -> Any:
        """The value as JSON would give it: lists, dicts, text and numbers."""
        return msgspec.to_builtins(value, str_keys=True, enc_hook=write_other)

    def load(self, value: Any) -> Any:
        """The value of this type, from what JSON gave; keys of objects may be text for others."""
        return msgspec.convert(
            value, self.kind, builtin_types=(), str_keys=True, dec_hook=read_other
        )

    def decode(self, raw: bytes) -> Any:
        """The value of this type, from JSON."""
        return self._decoder.decode(raw)

    @property
    def encode(self) -> Encode:
        """Writes a value as JSON."""
        return encode_finite

    def schema(self, *, written: bool = False) -> dict[str, Any]:  # noqa: ARG002 - one for both
        """The type as a JSON schema, of what is read or of what is written."""
        return msgspec.json.schema(self.kind, schema_hook=schema_of_other)

    @cached_property
    def _decoder(self) -> "msgspec.json.Decoder[Any]":
        return msgspec.json.Decoder(self.kind, dec_hook=read_other)


class PydanticCodec(Codec):
    """Writes and reads values of one type by pydantic, through a TypeAdapter."""

    # Models are written by the names of their fields, which differ from no alias of anybody, and
    # are read by names and aliases: other programs may know the aliases only.
    READS: ClassVar = {"by_alias": True, "by_name": True}
    # Without computed fields, which a model that forbids extra ones would not take back.
    WRITES: ClassVar = {"mode": "json", "by_alias": False, "round_trip": True}

    def __init__(self, kind: Any, adapter: Any) -> None:
        super().__init__(kind)
        self._adapter = adapter

    def dump(self, value: Any) -> Any:
        """The value as JSON would give it."""
        return self._adapter.dump_python(value, warnings=False, **self.WRITES)

    def load(self, value: Any) -> Any:
        """The value of this type. In JSON mode, where strict models take text for dates."""
        return self.decode(encode(value))

    def decode(self, raw: bytes) -> Any:
        """The value of this type, from JSON."""
        return self._adapter.validate_json(raw, **self.READS)

    @property
    def encode(self) -> Encode:
        """Writes a value as JSON."""
        return lambda value: encode_finite(self.dump(value))

    def schema(self, *, written: bool = False) -> dict[str, Any]:
        """The type as a JSON schema, of what is read or of what is written."""
        mode = "serialization" if written else "validation"
        schema: dict[str, Any] = self._adapter.json_schema(by_alias=False, mode=mode)
        return schema


class GatheredCodec(Codec):
    """Writes and reads lists in which some elements may be failures of a gather's members."""

    def __init__(self, kind: Any, element: Codec | None) -> None:
        super().__init__(kind)
        self._element = element

    def dump(self, value: Any) -> Any:
        """The list as JSON would give it."""
        return [self._dump_one(each) for each in value]

    def load(self, value: Any) -> Any:
        """The list, from what JSON gave."""
        if not isinstance(value, list | tuple):
            raise TypeError(f"Expected `array`, got `{type(value).__name__}`")
        return [failure_from(each) or self._load_one(each) for each in value]

    def decode(self, raw: bytes) -> Any:
        """The list, from JSON."""
        return self.load(msgspec.json.decode(raw))

    @property
    def encode(self) -> Encode:
        """Writes the list as JSON."""
        return lambda value: encode_finite(self.dump(value))

    def schema(self, *, written: bool = False) -> dict[str, Any]:
        """The type as a JSON schema, of what is read or of what is written."""
        element = {} if self._element is None else self._element.schema(written=written)
        return {"type": "array", "items": {"anyOf": [element, msgspec.json.schema(Failure)]}}

    def _dump_one(self, value: Any) -> Any:
        if isinstance(value, Failure):
            return msgspec.json.decode(failure_value(value))
        return value if self._element is None else self._element.dump(value)

    def _load_one(self, value: Any) -> Any:
        return value if self._element is None else self._element.load(value)


def gathered_codec(kind: Any) -> GatheredCodec | None:
    """The codec of a list whose elements may be failures; None if the type is none of those."""
    if get_origin(kind) not in (list, Sequence, Iterable) or len(get_args(kind)) != 1:
        return None
    [element] = get_args(kind)
    union = get_origin(element) in (Union, UnionType)
    kinds = get_args(element) if union else (element,)
    if Failure not in kinds:
        return None
    others = tuple(each for each in kinds if each is not Failure)
    plain = not others or any(each in (Any, object) for each in others)
    return GatheredCodec(kind, None if plain else codec_of(Union[others]))  # noqa: UP007


def takes_failures(codec: Codec) -> bool:
    """Whether a failure may be an element of values of the type."""
    if isinstance(codec, GatheredCodec) or codec.kind in (list, object, Any):
        return True
    return get_args(codec.kind) in ((Any,), (object,))


def codec_of(kind: Any) -> Codec:
    """The codec of a declared type; CannotCarryError if there is none.

    A NameError says that the type mentions another that is not defined yet.
    """
    if kind in PLAIN:
        return Codec(kind)
    if (gathered := gathered_codec(kind)) is not None:
        return gathered
    if get_origin(kind) is Iterable:
        kind = list[get_args(kind)]  # type: ignore[misc]
    parts = parts_of(kind)
    if any(is_pydantic(part) for part in parts):
        adapter = adapter_of(kind)
        if adapter is not None:
            refuse_secrets(parts)
            return PydanticCodec(kind, adapter)
    refuse_private_fields(parts)
    refuse_keys(parts)
    try:
        msgspec.json.Decoder(kind)
        found = shapes.type_info(kind)
    except TypeError as error:
        raise CannotCarryError(
            f"{error}; use types that JSON can tell apart, such as structs with a tag, or models"
        ) from error
    for other in others_in(found):
        if not (is_model(other) or is_text(other) or other is object):
            raise CannotCarryError(how_not(other))
    return Codec(kind)


def how_not(kind: type) -> str:
    """Why values of a class cannot be carried."""
    if hasattr(kind, "parse_obj"):
        return f"{shown(kind)} is a model of pydantic 1; make it one of pydantic 2"
    return (
        f"{shown(kind)} cannot be written as JSON and read back; declare a dataclass, a model,"
        " a struct, or builtin types, or pass an id to look up"
    )


# -- writing -------------------------------------------------------------------------------


def write_other(value: Any) -> Any:
    """A value that msgspec does not know, as JSON would give it."""
    kind = type(value)
    if is_model(kind):
        return value.model_dump(**PydanticCodec.WRITES)
    if is_text(kind):
        return str(value)
    if kind in (tuple, frozenset):  # msgspec knows them, but not as keys
        raise TypeError("Only dicts with str-like or number-like keys are supported")
    raise TypeError(f"Encoding objects of type {shown(kind)} is unsupported")


encode = msgspec.json.Encoder(enc_hook=write_other).encode


def encode_finite(value: Any) -> bytes:
    """The value as JSON; refuses NaN and infinities, which JSON would write as null."""
    encoded = encode(value)
    if b"null" in encoded and not is_finite(value):
        raise ValueError("it holds NaN or Infinity")
    return encoded


def is_finite(value: Any) -> bool:
    """Whether all numbers in it are finite."""
    return all_finite(msgspec.to_builtins(value, str_keys=True, enc_hook=write_other))


# -- reading -------------------------------------------------------------------------------


def read_other(kind: Any, value: Any) -> Any:
    """A value of a type that msgspec does not know, from what JSON gave."""
    if is_model(kind):
        try:
            return kind.model_validate_json(encode(value), **PydanticCodec.READS)
        except ValueError as error:
            raise ValueError(reason(error)) from error
    if is_text(kind):
        if not isinstance(value, str):
            raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
        return kind(value)
    return value  # object: any JSON will do


def reason(error: Exception) -> str:
    """Why a value does not fit, in the words of its library, on one line."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        text, _, path = str(error).partition(" - at `")
        said: tuple[Any, ...] = getattr(error.__cause__, "args", ())
        if len(said) > 1 and isinstance(said[0], str):  # as attrs raises, with the field and more
            text = said[0]
        return " ".join(text.split()) + (f" - at `{path}" if path else "")
    found = [
        ".".join(map(str, each["loc"])) + ": " * bool(each["loc"]) + each["msg"]
        for each in errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


# -- types of other libraries ----------------------------------------------------------------


def adapter_of(kind: Any) -> Any:
    """Pydantic's adapter of the type; None if pydantic does not know all of it."""
    pydantic = sys.modules["pydantic"]
    try:
        adapter = pydantic.TypeAdapter(kind)
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True)
    except pydantic.errors.PydanticUserError:
        return None
    return adapter


def refuse_secrets(parts: list[Any]) -> None:
    """Refuse secrets, which pydantic writes as asterisks unless it is told how."""
    for part in parts:
        if hasattr(part, "get_secret_value"):
            raise CannotCarryError(
                f"{shown(part)} is written as asterisks; pass an id to look the secret up, or give"
                " the field a serializer"
            )


def refuse_private_fields(parts: list[Any]) -> None:
    """Refuse fields with a leading underscore that the constructor takes: msgspec drops them."""
    for part in parts:
        if not isinstance(part, type) or is_model(part):
            continue
        of_dataclass = getattr(part, "__dataclass_fields__", {}).values()
        for field in getattr(part, "__attrs_attrs__", of_dataclass):
            if field.init and field.name.startswith("_"):
                raise CannotCarryError(
                    f"field {field.name} of {shown(part)} begins with an underscore, and would be"
                    " left out; rename it, or set init=False if it need not be carried"
                )


def refuse_keys(parts: list[Any]) -> None:
    """Refuse dicts with keys that msgspec cannot write as text and read back."""
    for part in parts:
        inner = get_args(part)
        if get_origin(part) not in DICTS or len(inner) != 2:  # noqa: PLR2004 - key and value
            continue
        for key in parts_of(inner[0]):
            kind = get_origin(key) or key
            if kind in NO_KEYS or (isinstance(kind, type) and has_fields(kind)):
                raise CannotCarryError(
                    f"its keys are {shown(inner[0])}, and in JSON keys are text; use text, numbers,"
                    " enums or dates as keys, or a list of pairs"
                )


def schema_of_other(kind: type) -> dict[str, Any]:
    """The schema of a type that msgspec does not know."""
    if is_model(kind):
        schema: dict[str, Any] = kind.model_json_schema(by_alias=False)  # type: ignore[attr-defined]
        return schema
    return {"type": "string"}
