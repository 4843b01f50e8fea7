"""Reads a page of the documentation as somebody who types it: files, commands, what they print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# what differs from run to run; all else is compared word for word
CHANGING = (
    (r"\d{4}-\d\d-\d\d ", "DATE "),
    (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
    (r"\d+(\.\d+)? (ms|s|seconds|min)( ago)?\b", "SECONDS"),
    (r"in \d+\.\d+s\b", "in SECONDS"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\s+", " "),
)


@dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command that the reader types, and lines that it prints, in this order."""

    line: str
    prints: tuple[str, ...]


def steps(page: Path) -> Iterator[File | Command]:
    """What the page has the reader do, in order."""
    for kind, text in BLOCK.findall(page.read_text()):
        if kind == "python":
            name, _, rest = text.partition("\n")
            yield File(name.removeprefix("# "), rest)
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, *prints = part.splitlines()
            yield Command(line, tuple(prints))


def missing(expected: tuple[str, ...], printed: str) -> str | None:
    """The first line that was not printed after those before it; None if all were."""
    lines = iter([same(line) for line in printed.splitlines()])
    for line in expected:
        if not any(same(line) in each for each in lines):
            return line
    return None


def same(line: str) -> str:
    """A line without what differs from run to run."""
    for changing, word in CHANGING:
        line = re.sub(changing, word, line)
    return line.strip()
