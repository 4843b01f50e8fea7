"""Arrays as PostgreSQL reads them in text: put together by joins, far quicker than one by one."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

Value = TypeVar("Value")
Literal: TypeAlias = Callable[[Sequence[Value | None]], str]


def alike(values: Sequence[Value]) -> Sequence[Value]:
    """The values, or one alone if all are alike."""
    return values[:1] if values.count(values[0]) == len(values) else values


def sparse(literal: Literal[Value], values: Sequence[Value | None]) -> str | None:
    """The literal of values most of which are None; None if all are."""
    return None if values.count(None) == len(values) else literal(values)


def texts(values: Sequence[str | None]) -> str:
    """A literal of text[]."""
    present = [value for value in values if value is not None]
    joined = '","'.join(present)
    clean = "\\" not in joined and joined.count('"') == 2 * max(0, len(present) - 1)
    if clean and present and len(present) == len(values):
        return '{"' + joined + '"}'
    return "{" + ",".join(["NULL" if v is None else _quoted(v) for v in values]) + "}"


def numbers(values: Iterable[float | None]) -> str:
    """A literal of an array of numbers."""
    return "{" + ",".join(["NULL" if v is None else str(v) for v in values]) + "}"


def bytestrings(values: Iterable[bytes | None]) -> str:
    """A literal of bytea[]."""
    return "{" + ",".join(["NULL" if v is None else f'"\\\\x{v.hex()}"' for v in values]) + "}"


def flags(values: Iterable[bool]) -> str:
    """A literal of boolean[]."""
    return "{" + ",".join(["t" if v else "f" for v in values]) + "}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
