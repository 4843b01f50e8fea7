"""What the annotations of a function say: the types in them, and the types that those mention.

Types of pydantic and attrs are known by their shape: neither is imported here.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import inspect as shapes

# Types that need no look inside.
PLAIN = frozenset({int, str, bool, float, bytes, list, dict, NoneType})
# Modules of the standard library whose values are their texts.
TEXTS = ("pathlib", "ipaddress", "zoneinfo")


def parts_of(kind: Any) -> list[Any]:
    """The type and all that it mentions: arguments, annotations, types of fields."""
    found: dict[int, Any] = {}
    left = [kind]
    while left:
        part = left.pop()
        if id(part) not in found:
            found[id(part)] = part
            left += mentioned(part)
    return list(found.values())


def mentioned(part: Any) -> Iterable[Any]:
    """The types that a type mentions itself."""
    metadata = getattr(part, "__metadata__", ())
    yield from metadata
    if has_serializer(metadata):
        return
    yield from (each for each in get_args(part) if not isinstance(each, str | int | bytes))
    kind = get_origin(part) or part
    if kind is Annotated or not isinstance(kind, type) or kind in PLAIN:
        return
    if isinstance(part, type | GenericAlias):
        yield kind
    if has_fields(kind):
        yield from get_type_hints(kind, include_extras=True).values()
    yield from written_by_pydantic(kind)


def written_by_pydantic(kind: Any) -> Iterable[Any]:
    """The types of a model's fields, apart from those that have a serializer of their own."""
    fields = getattr(kind, "__pydantic_fields__", {})
    if not fields or kind.__pydantic_decorators__.model_serializers:
        return
    serializers = kind.__pydantic_decorators__.field_serializers.values()
    serialized = {name for each in serializers for name in each.info.fields}
    for name, field in fields.items():
        if name not in serialized and "*" not in serialized and not has_serializer(field.metadata):
            yield field.annotation


def has_serializer(metadata: Iterable[Any]) -> bool:
    """Whether an annotation says how its values are written, in the way of pydantic."""
    return any(type(each).__name__ in ("PlainSerializer", "WrapSerializer") for each in metadata)


def has_fields(kind: type) -> bool:
    """Whether its annotations name the fields of its values; pydantic models are read otherwise."""
    return not hasattr(kind, "__pydantic_fields__") and (
        hasattr(kind, "__struct_fields__")
        or hasattr(kind, "__attrs_attrs__")
        or hasattr(kind, "__dataclass_fields__")
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
        or (issubclass(kind, dict) and hasattr(kind, "__total__"))
    )


def others_in(found: shapes.Type) -> Iterator[type]:
    """The classes within a type that msgspec does not know."""
    seen: set[int] = set()
    left: list[Any] = [found]
    while left:
        node = left.pop()
        if isinstance(node, tuple):
            left += node
        elif isinstance(node, shapes.Type | shapes.Field) and id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, shapes.CustomType):
                yield node.cls
            left += (getattr(node, name) for name in node.__struct_fields__)


def is_model(kind: Any) -> bool:
    """Whether it is a pydantic model."""
    return isinstance(kind, type) and hasattr(kind, "model_validate_json")


def is_text(kind: Any) -> bool:
    """Whether values of this class are written as their texts, and made from them."""
    return isinstance(kind, type) and kind.__module__.partition(".")[0] in TEXTS


def is_pydantic(part: Any) -> bool:
    """Whether it is a type of pydantic, or says something that only pydantic understands."""
    if "pydantic" not in sys.modules:
        return False
    home = getattr(part if isinstance(part, type) else type(part), "__module__", None) or ""
    return home.partition(".")[0] in ("pydantic", "annotated_types") or (
        isinstance(part, type)
        and (
            hasattr(part, "__pydantic_core_schema__")
            or hasattr(part, "__get_pydantic_core_schema__")
        )
    )


def shown(kind: Any) -> str:
    """A type as errors name it: without modules, and without what only a library reads."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is NoneType:
        return "None"
    if origin is Annotated:
        return shown(inner[0])
    if origin in (Union, UnionType):
        return " | ".join(map(shown, inner))
    if isinstance(origin, type) and all(isinstance(each, type) or get_args(each) for each in inner):
        return f"{origin.__name__}[{', '.join(map(shown, inner))}]"
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function; a NameError if a name in them is not defined yet."""
    if not hasattr(function, "__annotations__"):  # such as functools.partial
        return {}
    return get_type_hints(function, include_extras=True)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """What a function takes. Names in its annotations need not be defined, quoted or not."""
    if sys.version_info >= (3, 14):  # annotations are evaluated when they are asked for
        import annotationlib  # noqa: PLC0415 - there is none before

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)
