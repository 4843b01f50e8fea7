"""The bug zoo: mistakes that queues have made, each planted by replacing a function or two."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from mulligan.stores.rules import (
    carry_out,
    commit,
    end,
    enqueue,
    gather,
    operate,
    record,
    schedules,
)
from tests.dst.day import live, uncollected

RULES = (carry_out, commit, end, enqueue, gather, operate, record, schedules)

# Within so many seeds every bug of the zoo is caught.
SEEDS = 200
ZOO: dict[str, "Bug"] = {}


class Bug(NamedTuple):
    """A mistake: its name, what it does, and the functions that are replaced.

    It is looked for on this store, from the first seed on that may show it. A bug in the rules is
    a bug of every store that runs them.
    """

    name: str
    words: str
    changes: "list[Change]"
    store: str = "memory://"
    first: int = 0
    in_rules: bool = False

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
    """Replace a function by the decorated one, whose name and docstring describe the bug.

    A function of the rules is replaced in every module of the rules that imports it.
    """
    original = getattr(target, name)
    rules = [each for each in RULES if getattr(each, name, None) is original]

    def planted(function: Callable[..., Any]) -> Callable[..., Any]:
        bug = function.__name__.replace("_", " ")
        words = (function.__doc__ or "").strip()
        changes = [Change(each, name, function) for each in rules or [target]]
        ZOO[bug] = Bug(
            bug, words, [*changes, *more], store, first, in_rules=bool(rules) and not more
        )
        return function

    return planted


def keep(name: str, words: str, *changes: Change) -> None:
    """Take a bug into the zoo."""
    ZOO[name] = Bug(name, words, list(changes))


def catch(
    bug: Bug, seeds: int = SEEDS, *, as_clients: bool = False, store: str | None = None
) -> Caught:
    """Live through one seed after the other until the checker sees the bug."""
    with bug.let_loose(), uncollected():
        for seed in range(bug.first, bug.first + seeds):
            violations = live(seed, store or bug.store, as_clients=as_clients).violations
            if violations:
                names = dict.fromkeys(violation.invariant for violation in violations)
                return Caught(seed - bug.first + 1, list(names))
    return Caught(None, [])
