"""Valid names of queues, tasks, regions, keys and jobs, and text that every store can keep."""

import unicodedata

from mulligan.core.errors import InvalidError

NAME_LIMIT = 128


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


def check_region(value: object, *, anywhere: bool = True) -> str:
    """Return the region's name; `*` is any region, where `anywhere` allows it."""
    name = check_name("region", value)
    if name == "*" and anywhere:
        return name
    if name.startswith("*"):
        message = f"region {name!r} must not begin with '*', which stands for any region; rename it"
        raise InvalidError(message)
    return name


def clean(words: str) -> str:
    """The text without characters that some store cannot keep."""
    return words.encode("utf-8", "replace").decode().replace("\0", "")
