"""Starts against a limit: the most in any window, how many above the bound, and how much was used.

Times are in seconds, in order.
"""

from collections.abc import Sequence
from math import floor


def over_window(times: Sequence[float], rate: int, per: float) -> tuple[int, int]:
    """The most starts in any window of `per` seconds, and how many were beyond `rate`."""
    most, over, first = 0, 0, 0
    for index, when in enumerate(times):
        while times[first] + per <= when:
            first += 1
        most = max(most, index - first + 1)
        over += index - first + 1 > rate
    return most, over


def over_bucket(times: Sequence[float], rate: int, burst: int) -> tuple[int, int]:
    """The most starts in any window beyond what `rate` refills in it, and how many beyond `burst`.

    A bucket that refills at `rate` a second, and is debited by every start.
    """
    lacking, most, over, before = 0.0, 0.0, 0, times[0] if times else 0.0
    for when in times:
        lacking = max(0.0, lacking - (when - before) * rate) + 1
        most = max(most, lacking)
        # half a microsecond a start is the precision of what was written down
        over += lacking > burst + 0.01
        before = when
    return floor(most + 0.01), over


def used(times: Sequence[float], rate: int, seconds: float, burst: int = 0) -> float:
    """Which part of what is allowed was used, in so many seconds from the first start."""
    started = sum(when < times[0] + seconds for when in times)
    return started / (burst + rate * seconds)
