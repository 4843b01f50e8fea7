"""Log lines about lost leases: a cancel ends a lease too, and is not a failure of the worker."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from mulligan.core.errors import StoreError
from mulligan.core.job import Lease
from mulligan.stores.contract import Store

# The number of canceled attempts that are remembered, in order to log each once.
REMEMBERED = 1000
log = logging.getLogger("mulligan.worker")


class LostLease(NamedTuple):
    """A lost lease, and what follows from that."""

    lease: Lease
    what: str
    fields: Mapping[str, Any]


class LostLeases:
    """Asks the store why a lease was lost, then logs it. Nothing waits for that."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[LostLease] = []
        self._logging: asyncio.Task[None] | None = None
        self._cancelled: OrderedDict[Lease, None] = OrderedDict()

    def add(self, lease: Lease, what: str, fields: Mapping[str, Any]) -> None:
        """Log it soon: as a warning, or once at level info if the job was canceled."""
        self._waiting.append(LostLease(lease, what, fields))
        if self._logging is None or self._logging.done():
            self._logging = asyncio.get_running_loop().create_task(self._log_all())

    async def logged(self) -> None:
        """Wait until all is logged."""
        if self._logging is not None:
            await self._logging

    async def _log_all(self) -> None:
        while self._waiting:
            each = self._waiting.pop(0)
            reason = await self._cancel_reason(each.lease)
            if reason is None:
                log.warning(
                    "job %s: its lease (token %d) is no longer held; %s",
                    each.lease.job,
                    each.lease.token,
                    each.what,
                    extra=dict(each.fields),
                )
            elif each.lease not in self._cancelled:
                self._remember(each.lease)
                log.info(
                    "job %s: it was canceled: %s; %s",
                    each.lease.job,
                    reason,
                    each.what,
                    extra=dict(each.fields),
                )

    async def _cancel_reason(self, lease: Lease) -> str | None:
        """Why the job was canceled; None if it was not, or if the store does not say."""
        with contextlib.suppress(StoreError, OSError):
            job = await self._store.get(lease.job)
            if job is not None and job.status == "cancelled":
                return job.cancel_reason or "no reason was given"
        return None

    def _remember(self, lease: Lease) -> None:
        self._cancelled[lease] = None
        while len(self._cancelled) > REMEMBERED:
            self._cancelled.popitem(last=False)
