"""The unserved watch: an idle worker logs which jobs wait that no live worker may take.

A busy worker does not look. The metrics raise an alert in any case, and counting all that waits is
for a store with time to spare.
"""

import asyncio
import logging

from mulligan.core.unserved import unserved
from mulligan.engine.slots import Slots
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
FIRST_LOOK = 1.0
LOOK_EVERY = 30.0


class UnservedWatch:
    """Warns once of each queue and region, and again after a worker has served it in between."""

    def __init__(self, store: Store, slots: Slots, app: str) -> None:
        self._store = store
        self._slots = slots
        self._app = app
        self._warned: set[tuple[str, str, bool]] = set()
        self._store_retry = StoreRetry("look")

    async def run(self) -> None:
        """Look until cancelled."""
        await asyncio.sleep(FIRST_LOOK)
        while True:
            if not self._slots.holding:
                await self._store_retry.call(self.look)
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Warn of what is new since the last look."""
        found = unserved(await self._store.stats(), await self._store.facts())
        for each in found:
            if each[:3] not in self._warned:
                log.warning(
                    "%s; %s",
                    each.sentence,
                    each.remedy(self._app),
                    extra={"queue": each.queue, "region": each.region},
                )
        self._warned = {each[:3] for each in found}
