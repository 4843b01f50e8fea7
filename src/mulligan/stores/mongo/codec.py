"""Values between Python and the server: how documents are decoded, and how times are written.

Times are seconds in the contract, whole microseconds in private fields, and dates in public ones.
Documents are decoded so that whatever another program wrote can be read.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard

from bson import Int64
from bson.codec_options import CodecOptions, DatetimeConversion, TypeDecoder, TypeRegistry
from bson.raw_bson import RawBSONDocument

Doc = dict[str, Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
# No date can be written that is further from 1970, in microseconds: the year 9999 ends before.
LAST_DATE = 253_402_300_800 * SECOND


class WholeNumbers(TypeDecoder):
    """Numbers of 64 bits as plain ones: encoders of JSON do not know the driver's own kind."""

    bson_type = Int64

    def transform_bson(self, value: Any) -> int:
        """The same number."""
        return int(value)


# Dates beyond year 9999, and text that is no UTF-8, are decoded too.
TOLERANT: dict[str, Any] = {
    "tz_aware": True,
    "datetime_conversion": DatetimeConversion.DATETIME_AUTO,
    "unicode_decode_error_handler": "replace",
}
# For what is read.
TO_READ: CodecOptions[Doc] = CodecOptions(**TOLERANT, type_registry=TypeRegistry([WholeNumbers()]))
# For what is written back as a whole: each number keeps the size that its program gave it.
TO_WRITE: CodecOptions[Doc] = CodecOptions(**TOLERANT)
# For what is copied: it may hold values that Python has no type for.
TO_COPY: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument, **TOLERANT)


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


def is_time(value: Any) -> TypeGuard[int]:
    """Whether it is a time in microseconds, of the years that a date can be of."""
    return isinstance(value, int) and abs(value) < LAST_DATE


def of_date(value: Any) -> int:
    """A date as microseconds; refuses what is none, and one outside the years 1 to 9999."""
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r:.80} is not a date of the years 1 to 9999")
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)
