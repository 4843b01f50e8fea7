"""Arrays as PostgreSQL reads them, made by joining text, which is fastest."""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import TypeAlias, TypeVar

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

TEXT, BYTEA = 25, 17
TEXTS, BYTEAS = 1009, 1001
# one dimension, no NULL, the type, how many there are, numbered from 1
HEADER = Struct("!iiIii")
LENGTH = Struct("!i")
# A length below this is written in bytes that are characters too.
SHORT = 128

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


def flags(values: Iterable[bool | None]) -> str:
    """A literal of boolean[]; None is false."""
    return "{" + ",".join(["t" if v else "f" for v in values]) + "}"


class PackedTexts(bytes):
    """A text[] in the form in which it is kept, which the server need not read."""


class PackedBytes(bytes):
    """A bytea[] in that form."""


class TextsDumper(Dumper):
    """Sends it unchanged."""

    format, oid = Format.BINARY, TEXTS

    def dump(self, obj: bytes) -> Buffer:
        """The array."""
        return obj


class BytesDumper(TextsDumper):
    """Sends it unchanged."""

    oid = BYTEAS


psycopg.adapters.register_dumper(PackedTexts, TextsDumper)
psycopg.adapters.register_dumper(PackedBytes, BytesDumper)


def packed_texts(values: Sequence[str]) -> PackedTexts | str:
    """As `texts`, but packed if all are short, of one length and the same in every encoding."""
    length = len(values[0])
    joined = (mark := "\0\0\0" + chr(length)) + mark.join(values)
    if length < SHORT and joined.isascii() and set(map(len, values)) == {length}:
        return PackedTexts(HEADER.pack(1, 0, TEXT, len(values), 1) + joined.encode())
    return texts(values)


def packed_bytes(values: Sequence[bytes]) -> PackedBytes:
    """As `bytestrings`, packed: the server reads hexadecimal digits far slower."""
    marks = {length: LENGTH.pack(length) for length in set(map(len, values))}
    parts = [part for value in values for part in (marks[len(value)], value)]
    return PackedBytes(b"".join((HEADER.pack(1, 0, BYTEA, len(values), 1), *parts)))


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
