"""Reads TOML so that every error names the line of the mistake."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from mulligan.core.checks import LONGEST
from mulligan.core.errors import InvalidError

T = TypeVar("T")
Path = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


class Document:
    """A TOML text: its values, and where each of its keys is written.

    Errors call the file by its name, and all of it `whole`.
    """

    def __init__(self, name: str, text: str, whole: str) -> None:
        self.name = name
        self.whole = whole
        try:
            self.values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = _AT_LINE.search(str(error))
            line = int(found[1]) if found and found[1] else max(1, len(text.splitlines()))
            reason = _AT_LINE.sub("", str(error))
            raise InvalidError(f"{name}:{line}: this is not TOML: {reason}") from error
        self._lines = lines_of(text)

    @property
    def root(self) -> "Table":
        """The whole of it."""
        return Table(self, (), self.values)

    def refuse(self, path: Path, message: str) -> NoReturn:
        """Refuse the value at the path; the line is that of the nearest key that is written."""
        while path and path not in self._lines:
            path = path[:-1]
        raise InvalidError(f"{self.name}:{self._lines.get(path, 1)}: {message}")


class Table:
    """A table of the document, whose keys are asked for by name and kind."""

    def __init__(self, document: Document, path: Path, values: Mapping[str, Any]) -> None:
        self._document = document
        self._values = values
        self.path = path

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def only(self, *names: str) -> None:
        """Refuse keys other than these."""
        for name in self._values:
            if name not in names:
                near = get_close_matches(name, names, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(names)}"
                self.refuse(name, f"unknown key {name!r}{hint}")

    def refuse(self, name: str, message: str) -> NoReturn:
        """Refuse the value of this key."""
        self._document.refuse((*self.path, name), message)

    def refuse_all(self, message: str) -> NoReturn:
        """Refuse the table."""
        self._document.refuse(self.path, message)

    def checked(self, name: str, make: Callable[[], T]) -> T:
        """What `make` makes; if it is refused, that is said with the line of this key."""
        try:
            return make()
        except InvalidError as error:
            self.refuse(name, str(error))

    def value(self, name: str) -> Any:
        """Whatever is there; refused if nothing is."""
        if name not in self._values:
            self.refuse_all(f"{self._said()} has no {name}; add one")
        return self._values[name]

    def number(
        self,
        name: str,
        default: float | None = None,
        *,
        least: float = 0.0,
        most: float = LONGEST,
        above: bool = False,
    ) -> float:
        """A number within bounds; `above` leaves out the lower one."""
        found = self.value(name) if default is None else self._values.get(name, default)
        if isinstance(found, bool) or not isinstance(found, int | float):
            self.refuse(name, f"{name} {found!r} must be a number")
        if not least <= found <= most or (above and found == least):
            low = f"above {least:g}" if above else f"at least {least:g}"
            high = "" if most == LONGEST else f" and at most {most:g}"
            self.refuse(name, f"{name} {found!r} must be {low}{high}")
        return float(found)

    def count(self, name: str, default: int | None, *, least: int = 0, most: int = 10**6) -> int:
        """A whole number within bounds."""
        found = self.value(name) if default is None else self._values.get(name, default)
        if isinstance(found, bool) or not isinstance(found, int):
            self.refuse(name, f"{name} {found!r} must be a whole number")
        if not least <= found <= most:
            self.refuse(name, f"{name} {found!r} must be between {least} and {most}")
        return int(found)

    def text(self, name: str, default: str | None = None) -> str:
        """Text."""
        found = self.value(name) if default is None else self._values.get(name, default)
        if not isinstance(found, str):
            self.refuse(name, f"{name} {found!r} must be text")
        return found

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false; the default if it is not there."""
        found = self._values.get(name, default)
        if not isinstance(found, bool):
            self.refuse(name, f"{name} {found!r} must be true or false")
        return found

    def items(self, name: str) -> Sequence[Any]:
        """A list; empty if it is not there."""
        found = self._values.get(name, [])
        if not isinstance(found, list):
            self.refuse(name, f"{name} {found!r} must be a list")
        return found

    def table(self, name: str) -> "Table":
        """A table inside this one; an empty one if it is not there."""
        found = self._values.get(name, {})
        if not isinstance(found, dict):
            self.refuse(name, f"{name} {found!r} must be a table, [{name}]")
        return Table(self._document, (*self.path, name), found)

    def tables(self, name: str) -> "list[Table]":
        """The tables of a list, [[name]]."""
        found = self.items(name)
        for each in found:
            if not isinstance(each, dict):
                self.refuse(name, f"{name} must be a list of tables, [[{name}]]")
        return [Table(self._document, (*self.path, name, n), each) for n, each in enumerate(found)]

    def names(self) -> list[str]:
        """Its keys, in the order in which they are written."""
        return list(self._values)

    def _said(self) -> str:
        names = [str(part) for part in self.path if isinstance(part, str)]
        return f"[{'.'.join(names)}]" if names else self._document.whole


def lines_of(text: str) -> dict[Path, int]:
    """The line of each table and key, from 1. Keys inside inline values have that of the value."""
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    here: Path = ()
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = without_strings(line)
        header = _HEADER.match(line) if depth == 0 else None
        if header:
            here = resolved(parts(header[2]), counts)
            if header[1] == "[[":
                counts[here] = counts.get(here, -1) + 1
                lines.setdefault(here, number)
                here = (*here, counts[here])
            lines.setdefault(here, number)
            continue
        key = _KEY.match(line) if depth == 0 else None
        if key:
            lines.setdefault((*here, *parts(key[1])), number)
        depth = max(0, depth + sum(map(bare.count, "[{")) - sum(map(bare.count, "]}")))
    return lines


def resolved(names: Path, counts: Mapping[Path, int]) -> Path:
    """The path of a header; a part that is a list of tables stands for its last one."""
    path: Path = ()
    for name in names[:-1]:
        path = (*path, name)
        if path in counts:
            path = (*path, counts[path])
    return (*path, names[-1])


def parts(dotted: str) -> Path:
    """The names of a dotted key."""
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def without_strings(line: str) -> str:
    """The line without its strings and its comment, in which brackets mean nothing."""
    return re.sub(r"\"(?:\\.|[^\"\\])*\"|'[^']*'", "", line).partition("#")[0]
