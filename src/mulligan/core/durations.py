"""Durations are seconds or a timedelta, never milliseconds."""

from datetime import timedelta
from math import inf

from mulligan.core.errors import InvalidError

Seconds = float | timedelta
NUMBERS = (int, float, timedelta)

# Short enough that due times stay exact in a float.
LONGEST = 100 * 365 * 86_400.0
# Shorter durations are shown with tenths of a second.
WHOLE_FROM = 10


def seconds(value: Seconds) -> float:
    """The duration as a float of seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def rounded(moment: float) -> float:
    """A time rounded to the microsecond, so that equal sums of floats compare equal."""
    return round(moment, 6)


def span(length: float) -> str:
    """A duration in seconds, as text for people."""
    length = max(0.0, length)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if length >= 2 * size:
            return f"{length / size:.0f} {unit}"
    return f"{length:.1f} s" if length < WHOLE_FROM else f"{length:.0f} s"


def check_seconds(name: str, value: Seconds, *, least: float = 0.0) -> float:
    """Return the duration in seconds; refuse what is no duration or is below `least`."""
    if isinstance(value, bool) or not isinstance(value, NUMBERS):
        message = f"{name} {value!r} must be a number of seconds or a timedelta"
        raise InvalidError(message)
    try:
        number = seconds(value)
    except OverflowError:
        number = inf
    if not least <= number <= LONGEST:  # also refuses NaN
        message = f"{name} {number:g} must be between {least:g} s and {LONGEST:g} s"
        raise InvalidError(message)
    return number
