"""Job ids: short, unique, and in order of time, so that indexes stay compact."""

import itertools
import os
import time

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_count = itertools.count()
_process: tuple[int, str] = (0, "")


def new_id() -> str:
    """A new id: milliseconds, this process, and a counter, each of fixed width."""
    global _process  # noqa: PLW0603 - made anew after a fork
    if _process[0] != os.getpid():
        _process = (os.getpid(), base36(int.from_bytes(os.urandom(6)), 9))
    return f"{base36(time.time_ns() // 1_000_000, 8)}{_process[1]}{base36(next(_count), 5)}"


def base36(number: int, width: int) -> str:
    """The number in base 36, cut to its last `width` digits."""
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
