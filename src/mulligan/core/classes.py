"""Exception classes by name: those that a retry policy names, and those of an exception.

A class is named as Python prints it, with its module unless it is a builtin: `TimeoutError`,
`httpx.ReadTimeout`. So a policy is data, and a worker need not import the classes in it.
"""

from mulligan.core.checks import check_word, clean
from mulligan.core.errors import InvalidError

# Modules that Python does not print before the name of a class.
PLAIN_MODULES = ("builtins", "__main__")
NAME_LIMIT = 200
# How many classes a policy may name, and how many of an exception's are looked at.
CLASSES_LIMIT = 100


def type_name(kind: type) -> str:
    """The class as Python prints it: with its module, unless it is a builtin."""
    try:
        module, name = kind.__module__, kind.__qualname__
        shown = name if module in PLAIN_MODULES else f"{module}.{name}"
    except BaseException:  # noqa: BLE001 - a metaclass may do anything
        shown = "Exception"
    return clean(shown)[:NAME_LIMIT]


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
    if not 1 <= len(given) <= NAME_LIMIT:
        raise InvalidError(f"{field} {given[:40]!r} must have 1 to {NAME_LIMIT} characters")
    return check_word(field, given).removeprefix("builtins.")
