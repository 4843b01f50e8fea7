"""The reaper: claims what dead workers held, and decides it like any other failure."""

import asyncio
import logging
import random

from mulligan.core.decide import decide
from mulligan.core.job import Claim
from mulligan.core.outcome import Lost
from mulligan.core.worker import Worker
from mulligan.engine.committer import Committer
from mulligan.engine.executor import Executor
from mulligan.engine.job_log import job_fields
from mulligan.engine.reporter import ending_of
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
BATCH = 100


class Reaper:
    """Looks every `every` seconds. If it dies with reclaimed jobs, another one reclaims them.

    It takes no more while what it has taken is not written: where commits are held up, they
    would pile up here, be lost again, and count as lost once more.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker,
        executor: Executor,
        committer: Committer,
        *,
        every: float,
        chance: random.Random,
    ) -> None:
        self._store = store
        self._worker = worker
        self._executor = executor
        self._committer = committer
        self._every = every
        self._chance = chance
        self._store_retry = StoreRetry("reclaim")
        self.asking = False
        self.reclaimed = 0

    async def run(self) -> None:
        """Reclaim and decide until cancelled."""
        while True:
            self.asking = True
            claims = await self._store_retry.call(lambda: self._store.reclaim(BATCH, self._worker))
            self.asking = False
            for claim in claims:
                log.warning(
                    "job %s: worker %s stopped beating; attempt %d counts as failed",
                    claim.id,
                    claim.worker,
                    claim.attempt,
                    extra=job_fields(claim),
                )
                self.count(claim)
            if claims:
                await self._committer.flushed()
            if len(claims) < BATCH:
                await asyncio.sleep(self._every)

    def count(self, claim: Claim) -> None:
        """Decide an attempt that was lost, whose job is held here."""
        facts, claim = self._executor.facts, self._executor.completed(claim)
        outcome = decide(claim, Lost(), facts, self._chance.random())
        self._committer.add(outcome, ending_of(claim, Lost(), outcome, facts))
        self.reclaimed += 1
