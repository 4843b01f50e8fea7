"""Job ids: short, unique, and in order of time, so that indexes stay compact."""

import itertools
import os
import time

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
# Two digits at a time: an id is made for every job.
PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_count = itertools.count()
_process = ""
_moment = (0, "")


def new_id() -> str:
    """A new id: milliseconds, this process, and a counter, of eight, eight and six digits."""
    global _moment  # noqa: PLW0603 - made anew in each millisecond
    moment = _moment
    now = time.time_ns() // 1_000_000
    if moment[0] != now:
        _moment = moment = (now, base36(now, 8))
    return f"{moment[1]}{_process}{base36(next(_count), 6)}"


def base36(number: int, width: int) -> str:
    """The number in base 36, cut to its last `width` digits, which are even in number."""
    digits = ""
    for _ in range(width // 2):
        number, pair = divmod(number, 1296)
        digits = PAIRS[pair] + digits
    return digits


def name_process() -> None:
    """Draw the part of ids that tells this process from every other."""
    global _process  # noqa: PLW0603 - a fork must not go on with its parent's
    _process = base36(int.from_bytes(os.urandom(6)), 8)


name_process()
os.register_at_fork(after_in_child=name_process)
