"""The known word that an unknown one probably stands for, as the end of an error."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args

from msgspec import StructMeta, ValidationError

from mulligan.core.errors import InvalidError

# How msgspec names a field that a struct does not have.
UNKNOWN_FIELD = re.compile(r"unknown field `(.*?)`")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?", or "" if no known word is like the name.

    Case, hyphens and underscores make no difference: MaxRetries is max_retries.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - needed for a mistake alone

    words = {plain(word): word for word in known}
    near = get_close_matches(plain(name), words, 1)
    return f"; did you mean {words[near[0]]}?" if near else ""


def plain(word: str) -> str:
    """Return the word without case, hyphens and underscores."""
    return word.lower().replace("_", "").replace("-", "")


def misfit(error: ValidationError, *kinds: Any) -> str:
    """Return why data does not fit its type; for an unknown field, with the nearest of these."""
    found = UNKNOWN_FIELD.search(str(error))
    if found is None:
        return str(error)
    return f"{error}{nearest(found[1], [name for kind in kinds for name in fields_of(kind)])}"


def fields_of(kind: Any) -> list[str]:
    """Return the fields of a struct, or of all structs in a union or list."""
    if isinstance(kind, StructMeta):
        return list(kind.__struct_fields__)
    return [name for each in get_args(kind) for name in fields_of(each)]


class NamedFields(StructMeta):
    """The class of structs that users make: an unknown keyword is refused with the nearest one."""

    if not TYPE_CHECKING:  # type checkers know the fields themselves

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - of a metaclass
            """Make one."""
            try:
                return super().__call__(*args, **kwargs)
            except TypeError as error:
                for name in kwargs.keys() - set(cls.__struct_fields__):
                    known = cls.__struct_fields__
                    hint = nearest(name, known) or f"; it takes {', '.join(known)}"
                    raise InvalidError(f"{cls.__name__} has no {name}={hint}") from error
                raise
