"""The SQL of the store: a file of named statements for each room, read when that is imported.

    -- What the file is about.

    -- name: take
    -- ?1 queue, ?2 scope: what it is given; then what it gives
    DELETE FROM lane WHERE queue = ? AND scope = ?

    -- fragment: row
    lane.due, lane.sequence

`{row}` stands for the fragment in the statements after it. Lists that follow from the table of
fields are handed to `load` and stand there in the same way. Whatever is unknown, missing, double
or left over raises FormatError: at import, and not at a first use.
"""

import re
from importlib.resources import files
from typing import Any, Literal, NamedTuple, cast

_HEAD = re.compile(r"-- (name|fragment): ([a-z_]+)")
_LIST = re.compile(r"\{(\w+)\}")


class FormatError(Exception):
    """A file of statements does not say what it should, or is asked for what it does not say."""


class Part(NamedTuple):
    """A statement or a fragment, and the comment that describes it."""

    kind: Literal["name", "fragment"]
    name: str
    header: str
    sql: str


class Statements(dict[str, str]):
    """The statements of a file by their names."""

    def __init__(self, room: str) -> None:
        super().__init__()
        self.room = room

    def __missing__(self, name: str) -> str:
        raise FormatError(f"sql/{self.room}.sql has no statement {name!r}, but {', '.join(self)}")


def load(room: str, **lists: str) -> Statements:
    """The statements of a room, with its lists filled in; each list must be of use."""
    return fill(room, parse(source(room)), lists)


def source(room: str) -> str:
    """The text of the room's file."""
    return files(__package__).joinpath("sql", f"{room}.sql").read_text("utf-8")


def parse(text: str) -> list[Part]:
    """The parts of a file, in order; before the first there are only comments."""
    parts: list[Part] = []
    for line in text.splitlines():
        if head := _HEAD.fullmatch(line):
            parts.append(Part(cast("Any", head[1]), head[2], "", ""))
        elif parts:
            kind, name, header, sql = parts.pop()
            if line.startswith("--"):
                header += f"{line}\n"
            else:
                sql += f"{line}\n"
            parts.append(Part(kind, name, header, sql))
        elif line and not line.startswith("--"):
            raise FormatError(f"{line!r} belongs to no statement; begin it with: -- name: …")
    return [Part(kind, name, header, sql.strip()) for kind, name, header, sql in parts]


def fill(room: str, parts: list[Part], lists: dict[str, str]) -> Statements:
    """The statements among the parts, with fragments and lists in their places."""
    known, unused = dict(lists), set(lists)
    statements = Statements(room)

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in known:
            raise FormatError(f"sql/{room}.sql: nothing is known that {{{name}}} could stand for")
        unused.discard(name)
        return known[name]

    for kind, name, _, sql in parts:
        if not sql:
            raise FormatError(f"sql/{room}.sql: {name!r} is empty")
        if name in statements or name in known:
            raise FormatError(f"sql/{room}.sql: {name!r} is there twice")
        text = _LIST.sub(value, sql)
        if kind == "fragment":
            known[name] = text
            unused.add(name)
        else:
            statements[name] = text
    if unused:
        raise FormatError(f"sql/{room}.sql: {', '.join(sorted(unused))} stands nowhere")
    return statements
