"""The retry budget of a queue: how many retries may start, counted when they start."""

from msgspec import Struct

from mulligan.core.checks import Seconds, check_number, check_seconds, seconds
from mulligan.core.errors import InvalidError
from mulligan.core.nearest import NamedFields
from mulligan.core.plan import Rate

RATIO_FLOOR = 10
RATIO_WINDOW = 60.0


class Budget(Struct, frozen=True, metaclass=NamedFields):
    """At most `limit` retries start in any window of `per` seconds, all workers together.

    With `ratio` instead, retries are at most that share of the fresh starts of the last minute,
    and ten a minute are always allowed. The others wait; none is dropped.
    """

    limit: int | None = None
    per: Seconds = 60.0
    ratio: float | None = None

    def __post_init__(self) -> None:
        """Refuse a budget with neither or both of limit and ratio, or that allows no retry."""
        if (self.limit is None) == (self.ratio is None):
            message = f"budget limit {self.limit!r} and ratio {self.ratio!r}: give exactly one"
            raise InvalidError(message)
        if self.limit is not None:
            check_number("budget limit", self.limit, whole=True)
            if self.limit < 1:
                message = f"budget limit {self.limit!r} must be at least 1; a queue can be paused"
                raise InvalidError(message)
        if self.ratio is not None:
            check_number("budget ratio", self.ratio)
            if not 0 < self.ratio <= 1:
                message = f"budget ratio {self.ratio!r} must be above 0 and at most 1"
                raise InvalidError(message)
        check_seconds("budget per", self.per, least=0.001)
        if self.ratio is not None and seconds(self.per) != RATIO_WINDOW:
            message = f"budget per {self.per!r} does not go with ratio, which looks at a minute"
            raise InvalidError(message)

    def retry_limit(self, queue: str) -> Rate:
        """The limit on starts of retries."""
        key = f"budget:{queue}"
        if self.limit is not None:
            return Rate(key, self.limit, seconds(self.per))
        return Rate(key, RATIO_FLOOR, RATIO_WINDOW, self.ratio or 0.0, f"fresh:{queue}")

    def fresh_limit(self, queue: str) -> Rate | None:
        """The counter of fresh starts, if the budget is a share of them."""
        return None if self.ratio is None else Rate(f"fresh:{queue}", None, RATIO_WINDOW)
