"""Whether the results of one task can be the argument of another, by their annotations.

Types are compared by the JSON that their values become. Only a pair of which no value could fit is
refused: int and str, or list[int] and list[str]. What cannot be compared is taken to fit.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from mulligan.app.types import Codec, PydanticCodec

# How deeply a schema is read; a type may refer to itself.
DEEPEST = 8
JSON_KINDS: dict[type, str] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


class Shape(NamedTuple):
    """The kinds of JSON that values of a type are, and the shape of elements; None is any."""

    kinds: frozenset[str] | None = None
    items: "Shape | None" = None


ANY = Shape()


@lru_cache(1024)
def shape_of(codec: Codec | None) -> Shape:
    """Return the shape of the values that a codec writes."""
    if codec is None:
        return ANY
    try:
        schema = codec.schema(written=True)
    except Exception:  # noqa: BLE001 - a model may have fields or hooks without a schema
        return ANY
    return shape(schema, schema.get("$defs", {}))


def shape(  # noqa: PLR0911 - one for each kind of schema
    schema: Mapping[str, Any], named: Mapping[str, Any], depth: int = 0
) -> Shape:
    """Return the shape that a JSON schema describes."""
    if depth > DEEPEST:
        return ANY
    if "$ref" in schema:
        return shape(named.get(schema["$ref"].rpartition("/")[2], {}), named, depth + 1)
    if "anyOf" in schema:
        return either([shape(each, named, depth + 1) for each in schema["anyOf"]])
    if "enum" in schema:
        return Shape(frozenset(JSON_KINDS[type(each)] for each in schema["enum"]))
    kind = schema.get("type")
    if not isinstance(kind, str):
        return ANY
    if schema.get("format") in ("decimal", "duration"):  # numbers are read as these too
        return Shape(frozenset({"string", "number"}))
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return Shape(frozenset({kind}), shape(schema["items"], named, depth + 1))
    return Shape(frozenset({"number" if kind == "integer" else kind}))


def either(shapes: list[Shape]) -> Shape:
    """Return the shape of a union."""
    if any(each.kinds is None for each in shapes):
        return ANY
    kinds = frozenset[str]().union(*(each.kinds or () for each in shapes))
    lists = [each for each in shapes if "array" in (each.kinds or ())]
    return Shape(kinds, lists[0].items if len(lists) == 1 else None)


def fits(given: Shape, taken: Shape) -> bool:
    """Return whether some value of the one shape may be a value of the other."""
    if given.kinds is None or taken.kinds is None:
        return True
    common = given.kinds & taken.kinds
    if common != {"array"}:
        return bool(common)
    return given.items is None or taken.items is None or fits(given.items, taken.items)


def taken_by(codec: Codec | None) -> Shape:
    """Return the shape of what a parameter takes; validators of pydantic may take anything."""
    return ANY if isinstance(codec, PydanticCodec) else shape_of(codec)


def list_of(element: Shape) -> Shape:
    """Return the shape of lists of these."""
    return Shape(frozenset({"array"}), element)
