"""The Lua scripts, each put together once with the shared files that it includes."""

import hashlib
import re
from collections import Counter
from functools import cache
from importlib.resources import files

from msgspec import Struct

INCLUDE = re.compile(r"^-- include: (.+)$", re.MULTILINE)
# What follows the base is one function inside of it. Each function that a script defines is made
# anew at every call, and Lua finds a name at once where it lies outside of the function around,
# but searches all names in use for one that lies in it.
INNER, OUTER = "return (function()", "end)()"
COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
WORD = re.compile(r"\w+")
FUNCTION = re.compile(r"^local function (\w+)\([^)]*\)\n.*?^end\n", re.MULTILINE | re.DOTALL)


class Script(Struct, frozen=True):
    """A script as it is sent, and the name by which the server remembers it."""

    name: str
    source: bytes
    sha: str


@cache
def script(name: str) -> Script:
    """The script of this operation, with what it includes before it, each part once."""
    parts: dict[str, str] = {}
    text = read(f"{name}.lua")
    include(text, parts)
    base, *others = parts.values()
    source = without_unused("\n".join([base, INNER, *others, text, OUTER])).encode()
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
    """The text but for functions that nothing else in it names, for the reason given above."""
    text = COMMENT.sub("", text)
    while True:
        names = Counter(WORD.findall(text))
        unused = [
            found[0]
            for found in FUNCTION.finditer(text)
            if names[found[1]] == 1 or names[found[1]] == WORD.findall(found[0]).count(found[1])
        ]
        if not unused:
            return text
        for function in unused:
            text = text.replace(function, "")


def read(path: str) -> str:
    """The text of a Lua file of this package."""
    return files(__package__).joinpath("lua", *path.split("/")).read_text(encoding="utf-8")
