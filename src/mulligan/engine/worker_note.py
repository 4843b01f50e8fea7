"""Tells of this worker's process in a note, and obeys what operators order it to do."""

import asyncio
import os
import platform
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from mulligan.core.worker import Worker
from mulligan.core.worker_notes import (
    ABOUT,
    KEEP_ABOUT,
    LOOK_EVERY,
    ORDER,
    Order,
    WorkerAbout,
    encode,
    read_order,
)
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

# The package itself is above this layer, and loaded whenever this is.
VERSION: str = sys.modules["mulligan"].__version__
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class WorkerNote:
    """Renews the note, looks for an order, and hands each to `obey` once."""

    def __init__(
        self, store: Store, worker: Worker, app: str, obey: Callable[[Order], None]
    ) -> None:
        self._store = store
        self._worker = worker
        self._app = app
        self._obey = obey
        self._obeyed: Order | None = None
        self._store_retry = StoreRetry("worker note")

    async def run(self) -> None:
        """Do so until cancelled."""
        while True:
            await self._store_retry.call(self.look)
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Tell of this process, and obey an order that is new."""
        about = WorkerAbout(
            socket.gethostname(),
            os.getpid(),
            self._app,
            platform.python_version(),
            VERSION,
            memory(),
        )
        await self._store.note(ABOUT + self._worker.id, encode(about), KEEP_ABOUT)
        key = ORDER + self._worker.id
        order = read_order(await self._store.notes(key), self._worker.id)
        if order is not None and order != self._obeyed:
            self._obeyed = order
            self._obey(order)

    async def forget(self) -> None:
        """Tell no more: the worker leaves."""
        await self._store.note(ABOUT + self._worker.id, None, 0.0)


def memory() -> int | None:
    """The bytes of memory that this process uses; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return None
