"""A job's retry policy: how many retries, how far apart, and where they may run."""

from typing import Literal, get_args

from msgspec import Struct

from mulligan.core.backoff import Adaptive, Backoff, Exponential, Sessions
from mulligan.core.errors import InvalidError

Scope = Literal["global", "region"]


class Retry(Struct, frozen=True):
    """`max_retries` retries after the first attempt (None: without end), spaced by `backoff`.

    With scope "global" any region may take a retry; "region" pins it to the job's own.
    """

    max_retries: int | None = 5
    backoff: Backoff = Exponential()
    scope: Scope = "global"

    def __post_init__(self) -> None:
        """Refuse an invalid policy."""
        if self.max_retries is not None and not is_count(self.max_retries):
            message = f"max_retries {self.max_retries!r} must be 0 or more; None means without end"
            raise InvalidError(message)
        if not is_backoff(self.backoff):
            message = (
                f"backoff {self.backoff!r} must be Exponential, Adaptive, Delays or Sessions;"
                " for fixed waits use Delays((1, 5, 30))"
            )
            raise InvalidError(message)
        if self.scope not in get_args(Scope):
            message = f"scope {self.scope!r} is not one of {', '.join(get_args(Scope))}"
            raise InvalidError(message)

    def spent(self, retry_count: int) -> bool:
        """Whether a failure at this retry_count is the last one."""
        return self.max_retries is not None and retry_count >= self.max_retries

    @property
    def needs_depth(self) -> bool:
        """Whether a delay depends on how much fresh work waits."""
        return isinstance(self.backoff, Adaptive)


def is_count(value: object) -> bool:
    """Whether it is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_backoff(value: object) -> bool:
    """Whether it is one of the backoffs."""
    return isinstance(value, Backoff)


# Policies by name.
NAMED: dict[str, Retry] = {
    "default": Retry(),
    "quick": Retry(3, Exponential(2, 2, 60, "none")),
    "steep": Retry(5, Exponential(1, 4, None, "none")),
    "patient": Retry(10, Exponential(5, 2.0, 1800, "full")),
    "sessions": Retry(None, Sessions()),
}
# The same policies under short names.
LETTERS = {"P": "quick", "G": "quick", "F": "steep", "M": "patient", "D": "sessions"}
PRESETS: dict[str, Retry] = NAMED | {letter: NAMED[name] for letter, name in LETTERS.items()}


def preset(name: str) -> Retry:
    """The policy of this name."""
    if name not in PRESETS:
        raise InvalidError(
            f"retry {name!r} is not one of {', '.join(PRESETS)}; give one of these, or the policy"
            ' in full, such as {"max_retries": 3}'
        )
    return PRESETS[name]
