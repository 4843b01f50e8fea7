"""JSON schemas as generators of clients read them: every part has a type, and a name if it recurs.

msgspec's schemas are valid without that. Generators, however, refuse arrays without items and
objects as defaults, and make a class of their own for each enum that has no name.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

Schema = dict[str, Any]
REF = "#/components/schemas/"
JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def plain(schema: Any) -> Any:
    """The schema with a type for each enum and array, and only plain defaults."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: value if name in ("enum", "default") else plain(value)
        for name, value in schema.items()
        if name != "default" or not isinstance(value, dict | list)
    }
    if made.get("type") == "array":
        made.setdefault("items", {})
    if isinstance(made.get("description"), str):
        made["description"] = " ".join(made["description"].split())
    if isinstance(made.get("enum"), list) and "type" not in made:
        return typed(made)
    return made


def typed(schema: Schema) -> Schema:
    """The enum with its type, or one enum for each type of its values."""
    by_type: dict[str, list[Any]] = defaultdict(list)
    for value in schema["enum"]:
        by_type[JSON_TYPES[type(value)]].append(value)
    rest = {name: value for name, value in schema.items() if name != "enum"}
    if len(schema["enum"]) == 1:
        return rest | {"type": JSON_TYPES[type(schema["enum"][0])], "const": schema["enum"][0]}
    enums = [{"type": kind, "enum": values} for kind, values in by_type.items()]
    return rest | (enums[0] if len(enums) == 1 else {"anyOf": enums})


class Key(NamedTuple):
    """What equal parts have in common: of maps the field too, which says what they mean."""

    schema: bytes
    field: str


def named(components: Mapping[str, Schema], paths: Schema) -> tuple[dict[str, Schema], Schema]:
    """The components and the paths, with a component for every enum and map that recurs."""
    found: dict[Key, list[str]] = defaultdict(list)

    def note(field: str, part: Schema) -> None:
        found[key_of(field, part)].append(field)

    visited(components, "", note)
    visited(paths, "", note)
    names: dict[Key, str] = {}
    for key, fields in found.items():
        if len(fields) > 1:
            name = title(fields[0])
            while name in components or name in names.values():
                name += "Map" if key.field else "Word"
            names[key] = name

    def refer(field: str, part: Schema) -> Schema | None:
        name = names.get(key_of(field, part))
        beside = {each: part[each] for each in ("default", "description") if each in part}
        return None if name is None else {"$ref": REF + name} | beside

    made = {name: msgspec.json.decode(key.schema) | {"title": name} for key, name in names.items()}
    return visited(components, "", refer) | made, visited(paths, "", refer)


def visited(part: Any, field: str, visit: Callable[[str, Schema], Schema | None]) -> Any:
    """The part with what `visit` puts in the place of each enum and map in it.

    `visit` gets the field or parameter that holds it.
    """
    if isinstance(part, list):
        return [visited(each, field, visit) for each in part]
    if not isinstance(part, dict):
        return part
    if makes_type(part) and (other := visit(field, part)) is not None:
        return other
    field = part["name"] if "in" in part else field
    return {
        name: {each: visited(schema, each, visit) for each, schema in value.items()}
        if name == "properties"
        else visited(value, field, visit)
        for name, value in part.items()
    }


def makes_type(part: Schema) -> bool:
    """Whether generators make a type of it: an enum of several values, or a map without a name."""
    return len(part.get("enum", ())) > 1 or (part.get("type") == "object" and "title" not in part)


def key_of(field: str, part: Schema) -> Key:
    """What equal parts have in common."""
    bare = {name: part[name] for name in part if name not in ("default", "description", "title")}
    return Key(msgspec.json.encode(bare, order="sorted"), "" if "enum" in part else field)


def title(field: str) -> str:
    """The name of a type for the values of a field: `success_rate` is SuccessRate."""
    return "".join(word.capitalize() for word in field.split("_"))
