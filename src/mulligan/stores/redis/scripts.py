"""The Lua scripts, each put together once with the shared files that it includes."""

import hashlib
import re
from functools import cache
from importlib.resources import files

from msgspec import Struct

INCLUDE = re.compile(r"^-- include: (.+)$", re.MULTILINE)
# What a script includes last, and what follows that, is one function inside of the rest, which has
# the base at least. Each function that a script defines is made anew at every call, so that one
# which can answer without those does not make them; and Lua finds a name at once where it lies
# outside of the function around, but searches all names in use for one that lies in it.
INNER, OUTER = "return (function()", "end)()"
COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
# What the base calls the server by, and what stands in for it.
CALL, AROUND = "redis.call,", "call_around,"
WORD = re.compile(r"\w+")
FUNCTION = re.compile(r"^local function (\w+)\([^)]*\)\n.*?^end\n", re.MULTILINE | re.DOTALL)


class Script(Struct, frozen=True):
    """A script as it is sent, and the name by which the server remembers it."""

    name: str
    source: bytes
    sha: str


@cache
def script(name: str, *, around: bool = False) -> Script:
    """The script of this operation, with what it includes before it, each part once.

    One that reads `around` what is of another kind than it should be finds nothing there.
    """
    text = read(f"{name}.lua")
    first, include_last, rest = text.rpartition("-- include: ")
    parts: dict[str, str] = {}
    include(f"-- include: base\n{first}", parts)
    outer = len(parts)
    include(text, parts)
    shared = list(parts.values())
    inside = [INNER, *shared[outer:], include_last + rest, OUTER]
    text = without_unused("\n".join([*shared[:outer], first, *inside]))
    if around:
        text = read("shared/around.lua") + text.replace(CALL, AROUND, 1)
    source = text.encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest())


def include(text: str, parts: dict[str, str]) -> None:
    """Add what the text includes, and what that includes, before it."""
    for found in INCLUDE.finditer(text):
        for name in found[1].split(", "):
            if name not in parts:
                shared = read(f"shared/{name}.lua")
                include(shared, parts)
                parts[name] = shared


def without_unused(text: str) -> str:
    """The text but for functions that nothing kept of it names, for the reason given above."""
    text = COMMENT.sub("", text)
    unused = {found[0]: found[1] for found in FUNCTION.finditer(text)}
    named = set(words(FUNCTION.sub("", text)))
    while used := [function for function, name in unused.items() if name in named]:
        for function in used:
            del unused[function]
            named |= words(function)
    for function in unused:
        text = text.replace(function, "")
    return text


@cache
def words(text: str) -> frozenset[str]:
    """The words of a text, read once: a worker that waits for it could have begun a job."""
    return frozenset(WORD.findall(text))


@cache
def read(path: str) -> str:
    """The text of a Lua file of this package."""
    return files(__package__).joinpath("lua", *path.split("/")).read_text(encoding="utf-8")
