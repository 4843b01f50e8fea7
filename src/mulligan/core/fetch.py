"""The fetch policies: what runs next when both retries and fresh jobs wait."""

import re
from typing import Literal

from msgspec import Struct

from mulligan.core.checks import check_number
from mulligan.core.errors import InvalidError
from mulligan.core.nearest import NamedFields

Only = Literal["retries", "fresh"]
SMALLEST_SHARE = 1e-6


class Fifo(Struct, frozen=True, tag="fifo"):
    """No lane for retries: a due retry joins the end of its region's fresh lane."""


class RetryFirst(Struct, frozen=True, tag="retry-first"):
    """Every due retry before any fresh job."""


class Weighted(Struct, frozen=True, tag="weighted", metaclass=NamedFields):
    """While both wait, retries get this share of starts; either takes what the other leaves."""

    retry: float = 0.2

    def __post_init__(self) -> None:
        """Refuse a share that would starve one side."""
        check_number("retry share", self.retry)
        if not SMALLEST_SHARE <= self.retry <= 1 - SMALLEST_SHARE:
            message = (
                f"retry share {self.retry!r} must be between 0 and 1;"
                " for all or nothing use retry-first or separate"
            )
            raise InvalidError(message)


class Capped(Struct, frozen=True, tag="capped", metaclass=NamedFields):
    """Retry-first, with at most this many retries in flight in the queue."""

    limit: int

    def __post_init__(self) -> None:
        """Refuse a cap under which no retry could ever run."""
        check_number("cap", self.limit, whole=True)
        if self.limit < 1:
            message = f"cap {self.limit!r} must be at least 1; to stop all work pause the queue"
            raise InvalidError(message)


class Separate(Struct, frozen=True, tag="separate"):
    """Some workers serve only retries, the others only fresh jobs."""


class Balanced(Struct, frozen=True, tag="balanced"):
    """Alternate: while both wait, every second start is a retry."""


FetchPolicy = Fifo | RetryFirst | Weighted | Capped | Separate | Balanced

PLAIN: dict[str, FetchPolicy] = {
    "fifo": Fifo(),
    "retry-first": RetryFirst(),
    "separate": Separate(),
    "balanced": Balanced(),
}
_WITH_NUMBER = re.compile(
    r"(?:(weighted)\((?:retry\s*=\s*)?|capped\((?:limit\s*=\s*)?)([0-9.]+(?:e-[0-9]+)?)\)"
)


def parse_policy(text: str) -> FetchPolicy:
    """Read a policy as people write it: `balanced`, `weighted(retry=0.2)`, `capped(4)`."""
    word = text.strip()
    if word in PLAIN:
        return PLAIN[word]
    match = _WITH_NUMBER.fullmatch(word)
    try:
        if match and match[1] == "weighted":
            return Weighted(float(match[2]))
        if match:
            return Capped(int(match[2]))
    except ValueError as error:
        if isinstance(error, InvalidError):
            raise
    message = (
        f"fetch policy {text!r} is not one of {', '.join(PLAIN)}, weighted(retry=0.2), capped(4)"
    )
    raise InvalidError(message)


def policy_text(policy: FetchPolicy) -> str:
    """The policy as `parse_policy` reads it."""
    match policy:
        case Weighted(share):
            return f"weighted(retry={share!r})"
        case Capped(limit):
            return f"capped({limit})"
        case _:
            return str(policy.__struct_config__.tag)
