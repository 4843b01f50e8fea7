"""How many fresh jobs wait in a lane, for adaptive backoff; looked up at most once a second."""

import contextlib
from collections.abc import Callable

from mulligan.core.decide import policy_of
from mulligan.core.errors import StoreError
from mulligan.core.job import Claim
from mulligan.core.lane import Lane, Priority
from mulligan.stores.contract import Store

DEPTH_AGE = 1.0
DEPTH_LIMIT = 10_000


class LaneDepths:
    """The depths of fresh lanes, at most DEPTH_AGE seconds old while the store answers."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    async def of(self, claim: Claim) -> int:
        """How many fresh jobs wait in its queue and region; 0 if its backoff does not need it."""
        policy = policy_of(claim.body)
        if policy is None or not policy.retry.needs_depth:
            return 0
        at, depth = self._known.get((claim.queue, claim.region), (-DEPTH_AGE, 0))
        if self._monotonic() - at >= DEPTH_AGE:
            lane = Lane(claim.queue, claim.region, Priority.NORMAL)
            with contextlib.suppress(StoreError, OSError):  # the last known depth will do
                depth = await self._store.depth(lane, DEPTH_LIMIT)
                self._known[claim.queue, claim.region] = (self._monotonic(), depth)
        return depth
