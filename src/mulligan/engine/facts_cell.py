"""The facts that a worker plans and decides by, in one cell."""

from mulligan.core.facts import Facts


class FactsCell:
    """Holds the `current` facts. `Breakers` alone writes them; any loop of the worker reads them.

    A loop that receives facts from the store hands them to `Breakers.update`.
    """

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current = Facts()
