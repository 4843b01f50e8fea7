"""The reaper: reclaims what dead workers held, and decides it like any other failure."""

import asyncio
import logging
import random
from collections.abc import Callable

from mulligan.core.decide import decide
from mulligan.core.job import Claim
from mulligan.core.outcome import Lost
from mulligan.core.worker import Worker
from mulligan.engine.committer import Committer
from mulligan.engine.facts_cell import FactsCell
from mulligan.engine.job_log import job_fields
from mulligan.engine.reporter import ending_of
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
BATCH = 100


class Reaper:
    """Looks every `every` seconds. If it dies with reclaimed jobs, another one reclaims them.

    It reclaims no more until the outcomes of what it has are written. If commits are held up, jobs
    would otherwise pile up here, be lost again, and count as lost once more.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker,
        completed: Callable[[Claim], Claim],
        committer: Committer,
        *,
        facts: FactsCell,
        every: float,
        chance: random.Random,
    ) -> None:
        self._store = store
        self._worker = worker
        self._completed = completed
        self._facts = facts
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
        """Decide a lost attempt whose job was reclaimed here."""
        facts, claim = self._facts.current, self._completed(claim)
        outcome = decide(claim, Lost(), facts, self._chance.random())
        self._committer.add(outcome, ending_of(claim, Lost(), outcome, facts))
        self.reclaimed += 1
