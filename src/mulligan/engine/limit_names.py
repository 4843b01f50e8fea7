"""The names under which a process counts the starts of limits."""

from collections.abc import Collection

from mulligan.core.counts import LIMIT_STARTED, MOST_COUNTED_LIMITS, OTHER
from mulligan.core.limits import costs_of, covering


class LimitNames:
    """Names as the app declares them: those of a family are counted together, under its pattern.

    Of the names that no limit of the app covers the first have a count of their own, and all others
    share one, so that what a store keeps has a bound.
    """

    def __init__(self, declared: Collection[str] = ()) -> None:
        self._declared = declared
        self._others: set[str] = set()

    def counts(self, limits: str) -> list[str]:
        """The counts of a start of a job with these limits, as they are stored."""
        return [LIMIT_STARTED + self._counted(name) for name, _ in costs_of(limits)]

    def _counted(self, name: str) -> str:
        by = covering(name, self._declared)
        if by is not None:
            return by
        if name not in self._others and len(self._others) >= MOST_COUNTED_LIMITS:
            return OTHER
        self._others.add(name)
        return name
