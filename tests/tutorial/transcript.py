"""Reads a page of the documentation as somebody who types it: files, commands, what they print."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# a block, perhaps in a list; or what is typed out of the reader's sight
PART = re.compile(
    r"^(?P<indent> *)```(?P<kind>python|toml|console)\n(?P<text>.*?)^ *```$"
    r"|^<!-- typed: (?P<hidden>.*?) -->$",
    re.DOTALL | re.MULTILINE,
)
FILE = re.compile(r"# ([\w/]+\.\w+)\n")
# stands for lines that a page leaves out
LEFT_OUT = "…"
# what differs from run to run; all else is compared word for word
CHANGING = (
    (r"\d{4}-\d\d-\d\d[ T]", "DATE "),
    (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
    (r"\d+(\.\d+)? (ms|s|seconds|min)( ago)?\b", "SECONDS"),
    (r"in \d+\.\d+s\b", "in SECONDS"),
    # a rate before two counts and a runtime, which may happen to be whole
    (r"\b\d+(\.\d+)?(?= +\d+ +\d+ +SECONDS)", "NUMBER"),
    (r"\b\d+\.\d+\b", "NUMBER"),
    (r"\b(?=\w*\d)[0-9a-z]{22}\b", "ID"),
    (r"\b[\w.]+(-[\w.]+)*?-\d+-[0-9a-f]{6}\b", "WORKER"),
    (r"\bpid \d+", "pid PID"),
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


def steps(page: str) -> Iterator[File | Command]:
    """What the page has the reader do, in order."""
    for part in PART.finditer(page):
        yield from inside(part)


def inside(part: re.Match[str]) -> Iterator[File | Command]:
    """What one part of the page has the reader do."""
    if part["hidden"]:
        yield Command(part["hidden"], ())
        return
    text = textwrap.dedent(part["text"])
    if part["kind"] != "console":
        name = FILE.match(text)
        if name or part["kind"] == "python":
            yield File(name[1] if name else "shop.py", text)
        return
    for typed in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, prints = re.sub(r"\\\n *", "", typed).partition("\n")
        yield Command(line, tuple(each for each in prints.splitlines() if each.strip()))


def renewed(page: str, run: Callable[[File | Command], Sequence[str]]) -> str:
    """The page with what its commands print now: of each the lines that it showed, or else all."""

    def renew(part: re.Match[str]) -> str:
        outputs = [run(step) for step in inside(part)]
        if part["kind"] != "console":
            return part[0]
        typed = re.findall(r"^ *\$ (?:.*\\\n)*.*\n", part["text"], re.MULTILINE)
        blocks = [
            line + "".join(f"{part['indent']}{each}\n" for each in output)
            for line, output in zip(typed, outputs, strict=True)
        ]
        return f"{part['indent']}```console\n{''.join(blocks)}{part['indent']}```"

    return PART.sub(renew, page)


def shown(expected: Sequence[str], printed: str) -> list[str]:
    """Of what was printed the lines that a page shows, with a sign for those that it leaves out.

    All of it, if the page shows none of it yet, or something that was not printed.
    """
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    wanted = [same(line) for line in expected if line.strip() != LEFT_OUT]
    if not wanted or missing(expected, printed) is not None:
        return lines
    found: list[str] = []
    for line in lines:
        if wanted and wanted[0] in same(line):
            found.append(line)
            wanted.pop(0)
        elif not found or found[-1] != LEFT_OUT:
            found.append(LEFT_OUT)
    return found


def missing(expected: Sequence[str], printed: str) -> str | None:
    """The first line that was not printed after those before it; None if all were."""
    lines = iter([same(line) for line in printed.splitlines()])
    for line in expected:
        if line.strip() != LEFT_OUT and not any(same(line) in each for each in lines):
            return line
    return None


def same(line: str) -> str:
    """A line without what differs from run to run."""
    for changing, word in CHANGING:
        line = re.sub(changing, word, line)
    return line.strip()


def compared(page: str) -> list[str]:
    """The lines of a page that must be the same whenever its commands are run."""
    return [same(line) for line in page.splitlines() if line.strip() != LEFT_OUT]
