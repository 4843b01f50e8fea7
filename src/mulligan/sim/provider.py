"""A provider that jobs call: beyond its rate it answers 429, with a Retry-After."""

from collections import deque
from math import ceil

from msgspec import Struct


class Provider(Struct, frozen=True):
    """At most `rate` calls in any `per` seconds; refusing one takes `refuse_after` seconds."""

    name: str
    rate: int
    per: float
    refuse_after: float = 0.05


class Calls:
    """The calls of one run to a provider."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.total = 0
        self.refused = 0
        self._accepted: deque[float] = deque()

    def call(self, now: float) -> int | None:
        """Count a call; the Retry-After in whole seconds if it is refused, else None."""
        self.total += 1
        accepted, provider = self._accepted, self.provider
        while accepted and accepted[0] + provider.per <= now:
            accepted.popleft()
        if len(accepted) < provider.rate:
            accepted.append(now)
            return None
        self.refused += 1
        return max(1, ceil(accepted[0] + provider.per - now))
