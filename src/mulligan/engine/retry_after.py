"""How long an exception asks to wait: by its `retry_after`, or a Retry-After of its response.

It is known by its shape alone, so that exceptions of httpx, requests, aiohttp, openai and anthropic
are obeyed and none of them is imported. Reading never raises.
"""

import contextlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from mulligan.engine.traceback import led_to, members

RETRY_AFTER = "retry-after"


def asked_wait(error: BaseException) -> float | None:
    """Seconds that the error, or else one that led to it, asks to wait; None if none asks.

    Of several members of an exception group the longest counts.
    """
    for each in led_to(error):
        found = [own_wait(each), *map(asked_wait, members(each))]
        waits = [wait for wait in found if wait is not None]
        if waits:
            return max(waits)
    return None


def own_wait(error: BaseException) -> float | None:
    """Seconds that this very exception asks for."""
    with contextlib.suppress(BaseException):  # a user's exception class may be broken
        if (wait := seconds_in(getattr(error, "retry_after", None))) is not None:
            return wait
        response = getattr(error, "response", None)
        headers = getattr(error if response is None else response, "headers", None)
        if (said := header(headers, RETRY_AFTER)) is not None:
            return seconds_in(said, header(headers, "date"))
    return None


def header(headers: Any, name: str) -> str | None:
    """A header's value, whatever the case of its name."""
    if not isinstance(headers, Mapping):
        return None
    return next((value for key, value in headers.items() if str(key).lower() == name), None)


def seconds_in(said: object, sent: object = None) -> float | None:
    """A number of seconds, or those until an HTTP date; None if it is neither.

    A date counts from when the response was `sent`, by the same clock, or else from now.
    """
    if isinstance(said, timedelta):
        return max(0.0, said.total_seconds())
    if isinstance(said, bool) or not isinstance(said, str | int | float):
        return None
    with contextlib.suppress(ValueError, OverflowError):
        number = float(said)
        return max(0.0, number) if isfinite(number) else None
    until = moment(said)
    if until is None:
        return None
    return max(0.0, until - (moment(sent) or time.time()))


def moment(said: object) -> float | None:
    """An HTTP date in seconds since 1970."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow to import, and rare

    try:
        read: datetime = parsedate_to_datetime(str(said))
    except (ValueError, TypeError, OverflowError):
        return None
    return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
