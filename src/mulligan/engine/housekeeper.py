"""The housekeeper: promotes what fell due, ends what expired, deletes what is old."""

import asyncio

from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine.patience import Patience
from mulligan.stores.contract import Store


class Housekeeper:
    """Any worker does it for all; no job depends on it being on time."""

    def __init__(self, store: Store, *, every: float, keep_done: float) -> None:
        self._store = store
        self._every = every
        self._keep_done = keep_done
        self._patience = Patience("housekeeping")

    async def run(self) -> None:
        """Keep house until cancelled, without pause while there is a full batch to do."""
        while True:
            promoted = await self._patience.insist(lambda: self._store.promote(BATCH_LIMIT))
            pruned = await self._patience.insist(
                lambda: self._store.prune(self._keep_done, BATCH_LIMIT)
            )
            if max(promoted, pruned) < BATCH_LIMIT:
                await asyncio.sleep(self._every)
