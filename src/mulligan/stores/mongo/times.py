"""Times: seconds in the contract, whole microseconds in private fields, dates in public ones."""

from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
# No date can be written that is further from 1970, in microseconds: the year 9999 ends before.
LAST_DATE = 253_402_300_800 * SECOND


def micros(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * SECOND)


def seconds(at: int) -> float:
    """Microseconds as seconds, the float nearest to them."""
    return at / SECOND


def date(at: int) -> datetime:
    """The date of an event: the millisecond in which it happened."""
    return EPOCH + timedelta(milliseconds=at // 1000)


def date_after(at: int) -> datetime:
    """The date of something awaited: the first whole millisecond that is not before it."""
    return EPOCH + timedelta(milliseconds=-(-at // 1000))


def is_time(value: Any) -> bool:
    """Whether it is a time in microseconds, of the years that a date can be of."""
    return isinstance(value, int) and abs(value) < LAST_DATE


def of_date(value: Any) -> int:
    """A date as microseconds; refuses what is none, and one outside the years 1 to 9999."""
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r:.80} is not a date of the years 1 to 9999")
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)
