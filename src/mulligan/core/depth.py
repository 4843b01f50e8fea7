"""How deeply a value may be nested: one limit, below the recursion limit of interpreters."""

import re
from itertools import accumulate

from mulligan.core.errors import InvalidError
from mulligan.core.settings import DEPTH_LIMIT

# How many levels enclose the arguments in a body, or a result in a request, at most.
ENVELOPE = 8
# An unterminated string runs to the end, so that nothing is scanned twice.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
OPENING, CLOSING = b"[{", b"]}"
OTHERS = bytes(set(range(256)) - {*OPENING, *CLOSING})
STEPS = [(each in OPENING) - (each in CLOSING) for each in range(256)]


def is_too_deep(raw: bytes, around: int = 0) -> bool:
    """Whether JSON has more levels of lists and objects than the limit and those around it."""
    limit = DEPTH_LIMIT + around
    if raw.count(b"[") + raw.count(b"{") <= limit:
        return False
    brackets = STRING.sub(b"", raw).translate(None, OTHERS)
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0) > limit


def check_depth(what: str, raw: bytes, around: int = 0) -> None:
    """Refuse JSON that is too deep."""
    if is_too_deep(raw, around):
        raise InvalidError(too_deep(what))


def too_deep(what: str) -> str:
    """The message for a value that is too deep."""
    return f"{what} is nested more than {DEPTH_LIMIT} levels deep; flatten it"
