"""The bug zoo: mistakes that queues have made, each planted by replacing a function or two."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.dst.day import live, uncollected

# Within so many seeds every bug of the zoo is caught.
SEEDS = 200
ZOO: dict[str, "Bug"] = {}


class Bug(NamedTuple):
    """A mistake: its name, what it does, and the functions that are replaced.

    It is looked for on this store, from the first seed on that may show it.
    """

    name: str
    words: str
    changes: "list[Change]"
    store: str = "memory://"
    first: int = 0

    @contextmanager
    def let_loose(self) -> Iterator[None]:
        """Have it in the code for a while."""
        with ExitStack() as stack:
            for target, name, value in self.changes:
                stack.enter_context(patch.object(target, name, value))
            yield


class Change(NamedTuple):
    """An attribute of a class or module, and what is there instead."""

    target: Any
    name: str
    value: Any


class Caught(NamedTuple):
    """After how many seeds a bug was caught, and by which invariants; None if it was not."""

    seeds: int | None
    invariants: list[str]


def plant(
    target: Any, name: str, *more: Change, store: str = "memory://", first: int = 0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put the function in the place of another; its name and docstring are the bug's."""

    def planted(function: Callable[..., Any]) -> Callable[..., Any]:
        bug = function.__name__.replace("_", " ")
        words = (function.__doc__ or "").strip()
        ZOO[bug] = Bug(bug, words, [Change(target, name, function), *more], store, first)
        return function

    return planted


def keep(name: str, words: str, *changes: Change) -> None:
    """Take a bug into the zoo."""
    ZOO[name] = Bug(name, words, list(changes))


def catch(bug: Bug, seeds: int = SEEDS, *, as_clients: bool = False) -> Caught:
    """Live through one seed after the other until the checker sees the bug."""
    with bug.let_loose(), uncollected():
        for seed in range(bug.first, bug.first + seeds):
            violations = live(seed, bug.store, as_clients=as_clients).violations
            if violations:
                names = dict.fromkeys(violation.invariant for violation in violations)
                return Caught(seed - bug.first + 1, list(names))
    return Caught(None, [])
