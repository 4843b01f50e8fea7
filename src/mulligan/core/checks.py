"""Checks: what names and texts, durations, nested values and exception classes may be.

Durations are seconds or a timedelta, never milliseconds. Nesting has one limit, below the
recursion limit of interpreters. An exception class is named as Python prints it, with its module
unless it is a builtin: `TimeoutError`, `httpx.ReadTimeout`. So a retry policy is data, and a worker
need not import the classes in it.
"""

import re
import unicodedata
from datetime import timedelta
from itertools import accumulate
from math import inf, isfinite
from typing import Any

from mulligan.core.errors import InvalidError

NAME_LIMIT = 128
# How deeply lists and objects in an argument or a result may be nested.
DEPTH_LIMIT = 200
Seconds = float | timedelta
NUMBERS = (int, float, timedelta)
# Short enough that due times stay exact in a float.
LONGEST = 100 * 365 * 86_400.0
# Shorter durations are shown with tenths of a second.
WHOLE_FROM = 10
# How many levels enclose the arguments in a body, or a result in a request, at most.
ENVELOPE = 8
# An unterminated string runs to the end, so that nothing is scanned twice.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
OPENING, CLOSING = b"[{", b"]}"
OTHERS = bytes(set(range(256)) - {*OPENING, *CLOSING})
STEPS = [(each in OPENING) - (each in CLOSING) for each in range(256)]
# Modules that Python does not print before the name of a class.
PLAIN_MODULES = ("builtins", "__main__")
CLASS_NAME_LIMIT = 200
# How many classes a policy may name, and how many of an exception's are looked at.
CLASSES_LIMIT = 100


def check_name(kind: str, value: object) -> str:
    """Return the name, or refuse one that is empty, too long or has control characters."""
    if isinstance(value, str) and not 1 <= len(value) <= NAME_LIMIT:
        message = f"{kind} {value[:40]!r} has {len(value)} characters; use 1 to {NAME_LIMIT}"
        raise InvalidError(message)
    return check_word(kind, value)


def check_word(kind: str, value: object) -> str:
    """Return the name of something to look up, which may be longer than our own names.

    Refuses what is no text: a store might read a document as an operator.
    """
    if not isinstance(value, str):
        shown = repr(value)[:40]
        raise InvalidError(f"{kind} {shown} must be text, not {type(value).__name__}")
    if not value.isprintable():
        for character in value:
            if unicodedata.category(character) in ("Cc", "Cs"):
                raise InvalidError(
                    f"{kind} {value[:40]!r} has the control character {character!r}; remove it"
                )
    return value


def shown(value: object) -> str:
    """The value as Python spells it, which refuses to spell whole numbers of 4,300 digits."""
    try:
        return repr(value)
    except ValueError:
        return f"<{type(value).__name__} of thousands of digits>"


def check_region(value: object, *, anywhere: bool = True) -> str:
    """Return the region's name; `*` is any region, where `anywhere` allows it."""
    name = check_name("region", value)
    if name == "*" and anywhere:
        return name
    if name.startswith("="):
        if not anywhere:
            message = f"region {name!r} must not begin with '=', which marks pinned jobs; rename it"
            raise InvalidError(message)
        if name[1:2] in ("", "*", "="):
            message = f"region {name!r} pins a job to no region; name one after '=', such as =US"
            raise InvalidError(message)
    if name.startswith("*"):
        message = f"region {name!r} must not begin with '*', which stands for any region; rename it"
        raise InvalidError(message)
    return name


def clean(words: str) -> str:
    """The text without characters that some store cannot keep."""
    return words.encode("utf-8", "replace").decode().replace("\0", "")


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


def exact_span(length: float) -> str:
    """A duration in seconds, as text for people who have to know it exactly."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if length >= 2 * size and not length % size:
            return f"{length / size:.0f} {unit}"
    return f"{length:.6f}".rstrip("0").rstrip(".") + " s"


def check_seconds(name: str, value: Seconds, *, least: float = 0.0, most: float = LONGEST) -> float:
    """Return the duration in seconds; refuse one that is too short or too long, or is none."""
    if isinstance(value, bool) or not isinstance(value, NUMBERS):
        message = f"{name} {value!r} must be a number of seconds or a timedelta"
        raise InvalidError(message)
    try:
        number = seconds(value)
    except OverflowError:
        number = inf
    if not least <= number <= most:  # also refuses NaN
        message = f"{name} {number:g} must be between {least:g} s and {most:.12g} s"
        raise InvalidError(message)
    return number


def check_number(name: str, value: object, *, whole: bool = False) -> None:
    """Refuse what is no number, such as text from the environment; or no whole number."""
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        what = "whole number" if whole else "number"
        raise InvalidError(f"{name} {value!r} must be a {what}, not {type(value).__name__}")


def is_too_deep(raw: bytes, around: int = 0) -> bool:
    """Whether JSON has more levels of lists and objects than the limit and those around it."""
    limit = DEPTH_LIMIT + around
    if raw.count(b"[") + raw.count(b"{") <= limit:
        return False
    brackets = STRING.sub(b"", raw).translate(None, OTHERS)
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0) > limit


def all_finite(value: Any) -> bool:
    """Whether all numbers are finite in what JSON would give: lists, dicts, text and numbers."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, float) and not isfinite(each):
            return False
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list | tuple | set | frozenset):
            left += each
    return True


def check_depth(what: str, raw: bytes, around: int = 0) -> None:
    """Refuse JSON that is too deep."""
    if is_too_deep(raw, around):
        raise InvalidError(too_deep(what))


def too_deep(what: str) -> str:
    """The message for a value that is too deep."""
    return f"{what} is nested more than {DEPTH_LIMIT} levels deep; flatten it"


def type_name(kind: type) -> str:
    """The class as Python prints it: with its module, unless it is a builtin."""
    try:
        module, name = kind.__module__, kind.__qualname__
        shown = name if module in PLAIN_MODULES else f"{module}.{name}"
    except BaseException:  # noqa: BLE001 - a metaclass may do anything
        shown = "Exception"
    return clean(shown)[:CLASS_NAME_LIMIT]


def class_names(kind: type[BaseException]) -> tuple[str, ...]:
    """The class and its bases, in the order in which Python looks at them."""
    return tuple(type_name(each) for each in type.mro(kind)[:CLASSES_LIMIT] if each is not object)


def check_classes(field: str, given: object) -> tuple[str, ...]:
    """The names of classes that may be given as classes or by name, one or several."""
    several = given if isinstance(given, tuple | list) else (given,)
    if len(several) > CLASSES_LIMIT:
        raise InvalidError(f"{field} names {len(several)} classes; name at most {CLASSES_LIMIT}")
    return tuple(class_name(field, each) for each in several)


def class_name(field: str, given: object) -> str:
    """The name of one class."""
    if isinstance(given, type) and issubclass(given, BaseException):
        return type_name(given)
    if not isinstance(given, str):
        raise InvalidError(
            f"{field} has {given!r}, which is no exception class; give classes, such as"
            f' {field}=(TimeoutError, ConnectionError), or their names, such as "httpx.ReadTimeout"'
        )
    if not 1 <= len(given) <= CLASS_NAME_LIMIT:
        raise InvalidError(f"{field} {given[:40]!r} must have 1 to {CLASS_NAME_LIMIT} characters")
    return check_word(field, given).removeprefix("builtins.")
