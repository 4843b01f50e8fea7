"""The result gate: turns what a task returned or raised into the result of the attempt.

How long an exception asks to wait is known by its shape alone: by its `retry_after`, or a
Retry-After of its response. So exceptions of httpx, requests, aiohttp, openai and anthropic are
obeyed, and none of them is imported. Reading never raises.
"""

import contextlib
import inspect
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from math import isfinite
from typing import Any

import msgspec
from msgspec.structs import replace

from mulligan.core.checks import class_names, clean, is_too_deep, too_deep, type_name
from mulligan.core.errors import StoreError
from mulligan.core.health import ABOUT_DATA
from mulligan.core.outcome import Failed, Result, Snoozed, Succeeded
from mulligan.core.settings import TEXT_LIMIT
from mulligan.core.signals import Fail, RetryAfter, Snooze, SoftTimeout
from mulligan.engine.traceback import kept_message, led_to, members, message_of, traceback_of
from mulligan.engine.unawaited import AWAIT_IT, unawaited

encode_plain = msgspec.json.Encoder().encode
log = logging.getLogger("mulligan.worker")
REFUSED_LIMIT = 500
CODE_LIMIT = 100
Accept = Callable[[Any], bool]
Encode = Callable[[Any], bytes]
SIGNALS = (RetryAfter, Fail, Snooze)
NOTHING = Succeeded(None)
TOO_DEEP = too_deep("it")
RETRY_AFTER = "retry-after"


def check_result(accept: Accept | None, value: Any, limit: int, encode: Encode) -> Result:
    """The result of a returned value: accepted, refused, or not storable. It may be a signal.

    `encode` writes it as JSON, and raises if it cannot.
    """
    if isinstance(value, SIGNALS):
        return failed(value)
    wrong = refusal(accept, value)
    if wrong is not None:
        return wrong
    if value is None:
        return NOTHING
    try:
        encoded = encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        why = TOO_DEEP if isinstance(error, RecursionError) else str(error)
        return not_awaited(value) or not_json(why)
    if is_too_deep(encoded):
        return not_json(TOO_DEEP)
    return too_large(encoded, limit) or Succeeded(encoded)


def not_json(why: str) -> Failed:
    """A failure without retry: another attempt would return the same kind of value."""
    return Failed(
        "ResultNotJson",
        f"the result cannot be written as JSON: {clean(why)[:REFUSED_LIMIT]}; return text,"
        " finite numbers, lists and dicts, then replay the job",
        non_retryable=True,
    )


def not_awaited(value: Any) -> Failed | None:
    """A failure without retry of a result with a forgotten await; None if none was forgotten."""
    if (left := unawaited(value)) is None:
        return None
    message = f"the task returned {left}; {AWAIT_IT}; then replay the job"
    return Failed("ResultNotJson", message, non_retryable=True)


def refusal(accept: Accept | None, value: Any) -> Failed | None:
    """The failure of a value that `accept` refuses or raises for; None if it accepts."""
    if accept is None:
        return None
    if inspect.iscoroutine(value):
        return not_awaited(value)
    reason = "the result was refused"
    try:
        answer: Any = accept(value)
        if inspect.isawaitable(answer):
            reason = "the result could not be checked: accept did not answer at once"
            getattr(answer, "close", lambda: None)()
        elif answer:
            return None
    except Exception as error:  # noqa: BLE001 - `accept` is the user's
        reason = f"the result could not be checked: {type(error).__name__}: {text(error)}"
    return Failed("Refused", reason[:TEXT_LIMIT], refused=shown(value))


def too_large(encoded: bytes | None, limit: int) -> Failed | None:
    """A failure without retry of a result over the limit; None if it is within."""
    if encoded is None or len(encoded) <= limit:
        return None
    return Failed(
        "ResultTooLarge",
        f"the result has {len(encoded)} bytes, more than the {limit} allowed; store it elsewhere"
        " and return a link to it, or raise result_limit, then replay the job",
        non_retryable=True,
    )


class AttemptTimeoutError(TimeoutError):
    """The attempt took longer than the timeout of its task."""


# What a policy may name to mean a timeout: TimeoutError, and the bases of it.
TIMED_OUT = class_names(TimeoutError)


def timed_out(limit: float | None, outlived: BaseException) -> AttemptTimeoutError:
    """The failure of an attempt that outlived its limit; its cause says where a coroutine was."""
    late = AttemptTimeoutError(f"the attempt took longer than {limit:g} s")
    where: BaseException | None = outlived
    while where is not None:
        late.__cause__, where = where, where.__cause__
    return late


class Raised(Failed, frozen=True, kw_only=True, gc=True):
    """A failure with its exception, for logs. No outcome has it, so that no store is given it."""

    error: BaseException

    @property
    def told(self) -> Failed:
        """The failure as data."""
        return Failed(*(getattr(self, name) for name in Failed.__struct_fields__))


def failed(error: BaseException) -> Raised | Snoozed:
    """The result of an attempt that raised an exception, or raised or returned a signal."""
    if isinstance(error, Snooze):
        return Snoozed(error.delay)
    made = partial(Raised, message=text(error), traceback=traceback_of(error), error=error)
    match error:
        case RetryAfter():
            return made("RetryAfter", delay=error.delay, about_region=False, pause=error.pause)
        case Fail():
            return made(error.kind, code=shown_code(error.code), non_retryable=True)
        case SoftTimeout():
            return made("SoftTimeout", classes=TIMED_OUT)
        case AttemptTimeoutError():
            return made("Timeout", classes=TIMED_OUT)
    wait = asked_wait(error)
    return made(
        type_name(type(error)),
        code=shown_code(code_of(error)),
        about_region=not isinstance(error, ABOUT_DATA) and wait is None,
        classes=class_names(type(error)),
        least_delay=wait or 0.0,
    )


def killed_late(limit: float | None) -> Raised:
    """The failure of an attempt whose process was killed at its timeout: no traceback is known."""
    late = AttemptTimeoutError(f"the attempt took longer than {limit:g} s")
    return Raised("Timeout", text(late), classes=TIMED_OUT, error=late)


def asked(result: Result, retry_if: Callable[[Any], bool] | None) -> Result:
    """The result, which is non-retryable if the task's predicate does not retry its exception.

    If the predicate raises, the exception is retried. It is not asked about signals, and not about
    failures of the store.
    """
    untold = (*SIGNALS, StoreError)
    if retry_if is None or not isinstance(result, Raised) or isinstance(result.error, untold):
        return result
    try:
        retried = retry_if(result.error)
    except Exception:
        log.exception("the predicate in Retry(on=…) raised; the attempt is retried")
        return result
    return result if retried else replace(result, non_retryable=True)


def text(error: BaseException) -> str:
    """The error's message, shortened, without secrets, safe to store and to print."""
    return kept_message(message_of(error) or message_of(error, repr))


def code_of(error: BaseException) -> object:
    """The error's own code, if it has one."""
    try:
        return getattr(error, "code", None)
    except BaseException:  # noqa: BLE001 - a user's exception class may be broken
        return None


def shown_code(code: object) -> str | None:
    """An error's code as the history keeps it: short text, or None."""
    if not isinstance(code, str | int):
        return None
    try:
        return clean(str(code))[:CODE_LIMIT]
    except Exception:  # noqa: BLE001 - a number may have more digits than Python writes
        return None


def shown(value: Any) -> str:
    """A refused value as the history keeps it: shortened. It is stored nowhere else."""
    try:
        whole = encode_plain(value).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        whole = repr(value)
    return whole if len(whole) <= REFUSED_LIMIT else whole[: REFUSED_LIMIT - 1] + "…"


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
    items = getattr(headers, "items", None)  # a mapping, or a message as of http.client
    if items is None:
        return None
    return next((value for key, value in items() if str(key).lower() == name), None)


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
