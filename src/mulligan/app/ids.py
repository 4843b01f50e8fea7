"""Job ids: short, unique, and in order of time, so that indexes stay compact."""

import itertools
import os
import time

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
# Two digits at a time: an id is made for every job.
PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_count = itertools.count()
_process = ""
_beginning = (0, 0, "")


def new_id() -> str:
    """A new id: milliseconds, this process, and a counter, of eight, eight and six digits."""
    global _beginning  # noqa: PLW0603 - all but the last two digits, until they change
    now = time.time_ns() // 1_000_000
    high, low = divmod(next(_count), 1296)
    before, above, digits = _beginning
    if before != now or above != high:
        digits = base36(now, 8) + _process + base36(high, 4)
        _beginning = (now, high, digits)
    return digits + PAIRS[low]


def base36(number: int, width: int) -> str:
    """The number in base 36, cut to its last `width` digits, which are even in number."""
    digits = ""
    for _ in range(width // 2):
        number, pair = divmod(number, 1296)
        digits = PAIRS[pair] + digits
    return digits


def name_process() -> None:
    """Draw the part of ids that tells this process from every other."""
    global _process, _beginning  # noqa: PLW0603 - a fork must not go on with its parent's
    _process = base36(int.from_bytes(os.urandom(6)), 8)
    _beginning = (0, 0, "")


name_process()
os.register_at_fork(after_in_child=name_process)
