"""What tasks and calls say of limits and fairness keys, and which limits their app declares."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError
from mulligan.core.limit_homes import check_home, home_of_limits
from mulligan.core.limits import (
    Limit,
    check_costs,
    check_declared,
    check_fits,
    costs_of,
    costs_text,
)
from mulligan.core.stage import Stage

if TYPE_CHECKING:
    from mulligan.stores.contract import Store

# The limits that a call needs: a name, names, costs by name, or a function of its arguments.
Costs = str | Iterable[str] | Mapping[str, int]
LimitsOption = Costs | Callable[..., Costs | None] | None
F = TypeVar("F", bound=Callable[..., Any])
KeyOption = str | Callable[..., str | None] | None
PLACEHOLDER = re.compile(r"\{(\w*)[^{}]*\}")


def check_limits(value: LimitsOption) -> str | Callable[..., Costs | None] | None:
    """The limits as stores keep them, or the function that says them for each call."""
    return check_function("limits", value) if callable(value) else limits_text(value)


def limits_text(value: Costs | None) -> str | None:
    """The limits as stores keep them."""
    if value is None:
        return None
    if isinstance(value, (str, bytes)):
        value = [value]
    if isinstance(value, Mapping):
        costs = dict(value)
    elif isinstance(value, Iterable):
        costs = {check_name("limit", name): 1 for name in value}
    else:
        raise InvalidError(
            f"limits {value!r} must be a name, several names, or a dict of costs by name"
        )
    return costs_text(check_costs(costs))


def check_key(value: KeyOption) -> KeyOption:
    """A fairness key, or the function that says it for each call."""
    return check_function("fairness_key", value) if callable(value) else key_text(value)


def key_text(value: str | None) -> str | None:
    """A fairness key as stores keep it."""
    return None if value is None else check_name("fairness_key", value)


def check_unique_key(value: KeyOption) -> KeyOption:
    """Return a unique key, or the function of a call's arguments that returns it."""
    return check_function("unique_key", value) if callable(value) else unique_key_text(value)


def unique_key_text(value: str | None) -> str | None:
    """A unique key as stores keep it."""
    return None if value is None else check_name("unique_key", value)


def refuse_template(key: KeyOption, parameters: Collection[str] | None = None) -> None:
    """Refuse a unique key with a placeholder in braces, which nothing fills in.

    Data in the key of a call may have braces: with `parameters` only their names are placeholders.
    """
    if not isinstance(key, str):
        return
    for found in PLACEHOLDER.finditer(key):
        if parameters is None or found[1] in parameters:
            name = found[1] or "order"
            raise InvalidError(
                f"unique_key {key!r} has {found[0]}, and nothing fills in braces: all calls would"
                " have this one key; give a function of the arguments, such as"
                f" unique_key=lambda {name}: f'order-{{{name}}}'"
            )


def check_function(option: str, function: F) -> F:
    """Refuse a coroutine function: whoever enqueues calls it."""
    if inspect.iscoroutinefunction(function):
        raise InvalidError(
            f"{option}= names the coroutine function {function.__qualname__}; enqueue calls it with"
            " the arguments of the call: make it a plain function"
        )
    return function


def limits_for(
    limits: Any, key: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """The limits and the fairness key of a call with these arguments."""
    if callable(limits):
        limits = limits_text(said_by("limits", limits, args, kwargs))
    if callable(key):
        key = key_text(said_by("fairness_key", key, args, kwargs))
    return limits, key


def said_by(option: str, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What a function of the user's says of a call with these arguments."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        error.add_note(
            f"raised by the function that {option}= names; enqueue calls it with the arguments of"
            " the call"
        )
        raise


class DeclaredLimits(dict[str, Limit]):
    """The limits of an app by their names, some of which are patterns."""

    def __init__(self) -> None:
        super().__init__()
        self._allowed: set[str] = set()
        self._named = False  # whether a job of this process names one
        self._stored_by: object = None

    def __setitem__(self, name: str, limit: Limit) -> None:
        check_home(name, limit.home, {other: self[other].home for other in self if other != name})
        self._allowed.clear()
        self._stored_by = None
        super().__setitem__(name, limit)

    def wait_for(self, access: object) -> bool:
        """Whether jobs name limits, and these were not yet stored by this access to a store."""
        return self._named and self._stored_by is not access

    def were_stored_by(self, access: object) -> None:
        """Say that this access need not store them again."""
        self._stored_by = access

    async def store_in(self, store: "Store") -> None:
        """Store all of them."""
        for name, limit in self.items():
            await store.set_limit(name, limit, declared=True)

    def check(self, text: str) -> None:
        """Refuse names that no limit covers, and costs that could never be had."""
        self._named = True
        if text in self._allowed:
            return
        for name, cost in costs_of(text):
            check_fits(name, cost, self[check_declared(name, self)])
        self.home_of(name for name, _ in costs_of(text))
        if len(self._allowed) < MOST_REMEMBERED:
            self._allowed.add(text)

    def check_later(self, *stages: Stage | None) -> None:
        """The same of jobs that follow from another, and of what follows from those."""
        for stage in stages:
            if stage is not None:
                if stage.limits is not None:
                    self.check(stage.limits)
                self.check_later(stage.sink, stage.on_dead)

    def home_of(self, names: Iterable[str]) -> int | None:
        """The shard in which these limits live, if there are any; refuses several."""
        return home_of_limits(names, {name: limit.home for name, limit in self.items()})


MOST_REMEMBERED = 10_000
