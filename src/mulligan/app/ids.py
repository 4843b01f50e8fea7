"""Job ids: short, unique, and in order of time, so that indexes stay compact."""

import itertools
import os
from time import time_ns

MILLISECOND = 1_000_000
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
# Ids are made two digits at a time, for speed. Only 1,024 pairs are used for the last two digits,
# so that the number above them needs a shift and no division.
PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_count = itertools.count()
_process = ""
_beginning = (0, 0, "")


def new_id() -> str:
    """A new id: milliseconds, this process, and a counter, of eight, eight and six digits."""
    global _beginning  # noqa: PLW0603 - all digits but the last two, until they change
    now = time_ns()
    number = next(_count)
    high = number >> 10
    until, above, digits = _beginning
    if now >= until or above != high:
        digits = base36(now // MILLISECOND, 8) + _process + base36(high, 4)
        _beginning = (now - now % MILLISECOND + MILLISECOND, high, digits)
    return digits + PAIRS[number & 1023]


def base36(number: int, width: int) -> str:
    """The number in base 36, cut to its last `width` digits, which are even in number."""
    digits = ""
    for _ in range(width // 2):
        number, pair = divmod(number, 1296)
        digits = PAIRS[pair] + digits
    return digits


def name_process() -> None:
    """Choose the random digits that make ids of this process unique."""
    global _process, _beginning  # noqa: PLW0603 - a fork must not use its parent's
    _process = base36(int.from_bytes(os.urandom(6)), 8)
    _beginning = (0, 0, "")


name_process()
os.register_at_fork(after_in_child=name_process)
