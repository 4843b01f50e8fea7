"""What pytest's fixtures give: the app by its name, and its clock."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mulligan.app.mulligan import Mulligan
from mulligan.core.checks import Seconds
from mulligan.core.errors import InvalidError

if TYPE_CHECKING:
    from mulligan.testing.harness import Testing
    from mulligan.testing.real import StoreTesting


def named_app(name: str) -> Mulligan:
    """The app that `module:attribute` names."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise InvalidError(
            f"mulligan_app {name!r} is not written module:attribute, such as myproject.jobs:app"
        )
    found: Any = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Mulligan):
        raise InvalidError(
            f"mulligan_app {name!r} is {type(found).__name__} and not an app; name what Mulligan(…)"
            " was assigned to"
        )
    return found


class Clock:
    """The virtual clock of a test."""

    def __init__(self, test: "Testing | StoreTesting") -> None:
        self._test = test
        _ = test.now  # refuses a test on a real store

    @property
    def now(self) -> float:
        """Virtual seconds since the start of the test."""
        return self._test.now

    def advance(self, by: Seconds) -> None:
        """Let this much time pass, and whatever happens in it."""
        self._test.advance(by)

    async def aadvance(self, by: Seconds) -> None:
        """Let this much time pass, and whatever happens in it."""
        await self._test.aadvance(by)
