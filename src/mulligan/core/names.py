"""What a queue, a task, a region, a key or a job id may be called."""

import unicodedata

from mulligan.core.errors import InvalidError

NAME_LIMIT = 128


def check_name(kind: str, value: object) -> str:
    """Return the name, or refuse one that is empty, too long or has control characters."""
    if not isinstance(value, str):
        message = f"{kind} {value!r} must be text, not {type(value).__name__}"
        raise InvalidError(message)
    if not 1 <= len(value) <= NAME_LIMIT:
        message = f"{kind} {value[:40]!r} has {len(value)} characters; use 1 to {NAME_LIMIT}"
        raise InvalidError(message)
    if not value.isascii() or not value.isprintable():
        for character in value:
            if unicodedata.category(character) in ("Cc", "Cs"):
                message = f"{kind} {value!r} has the control character {character!r}; remove it"
                raise InvalidError(message)
    return value


def check_region(value: object, *, anywhere: bool = True) -> str:
    """Return the region's name; `*` alone means any region, where that makes sense."""
    name = check_name("region", value)
    if name == "*" and anywhere:
        return name
    if name.startswith("*"):
        message = f"region {name!r} must not begin with '*', which stands for any region; rename it"
        raise InvalidError(message)
    return name
