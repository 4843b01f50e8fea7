"""The Lua scripts, each put together once from its own file and the shared files it includes."""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from msgspec import Struct

INCLUDE = "-- include: "
# A script may have several lines of includes. What follows each but the first is a function inside
# of what comes before. So a script that returns early does not define the functions that it does
# not need, each of which costs time at every call. And Lua finds a name that a function captures at
# once where it lies outside of the function around, but searches through those that lie in it.
INNER, OUTER = "return (function()", "end)()"
# The shared file that takes the place of another in a tolerant script.
TOLERANT = {"call": "call_tolerant"}


class Script(Struct, frozen=True):
    """A script as it is sent, and the name by which the server remembers it."""

    name: str
    source: bytes
    sha: str


@cache
def script(name: str, *, tolerant: bool = False) -> Script:
    """The script of this operation, with each shared file before what needs it.

    To a tolerant script, a key whose value is of another type than it should be is absent.
    """
    parts: list[str] = []
    included: set[str] = set()
    inner = 0
    for line in read(f"{name}.lua").splitlines():
        if line.startswith(INCLUDE):
            if included:
                parts.append(INNER)
                inner += 1
            parts += include(line, included, tolerant=tolerant)
        else:
            parts.append(line)
    source = "\n".join(parts + [OUTER] * inner).encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest())


def include(line: str, included: set[str], *, tolerant: bool) -> Iterator[str]:
    """The shared files that a line names, each after those that it includes itself, and once."""
    for name in line.removeprefix(INCLUDE).split(", "):
        if name not in included:
            included.add(name)
            text = read(f"shared/{TOLERANT.get(name, name) if tolerant else name}.lua")
            for further in text.splitlines():
                if further.startswith(INCLUDE):
                    yield from include(further, included, tolerant=tolerant)
            yield text


@cache
def read(path: str) -> str:
    """The text of a Lua file of this package."""
    return files(__package__).joinpath("lua", *path.split("/")).read_text(encoding="utf-8")
