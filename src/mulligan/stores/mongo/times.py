"""Times: seconds in the contract, whole microseconds in private fields, dates in public ones."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


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


def of_date(value: datetime) -> int:
    """A date as microseconds."""
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)
