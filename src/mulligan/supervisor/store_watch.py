"""Reads a store's stats every second or two; a store that does not answer stops nothing."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from mulligan.core.facts import Facts
from mulligan.core.stats import Stats
from mulligan.stores import make_store, redact
from mulligan.stores.contract import Store
from mulligan.supervisor.events import Event, Tell

# A store that takes longer than this counts as away.
ANSWER_WITHIN = 10.0
CLOSE_WITHIN = 5.0
NOTE_KEPT = 30.0


class StoreWatch:
    """The newest stats and facts of one store, or why there are none.

    After each answer `changed` is called, and the store is given the note that `note` makes.
    """

    def __init__(
        self,
        url: str,
        every: float,
        key: str,
        *,
        note: Callable[[], bytes],
        tell: Tell,
        changed: Callable[[], None],
    ) -> None:
        self.shown = redact(url)
        self.away = ""
        self.stats: Stats | None = None
        self.facts = Facts()
        self._url = url
        self._every = every
        self._key = key
        self._note = note
        self._tell = tell
        self._changed = changed
        self._closing = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    def close(self) -> None:
        """Stop watching, and delete the note.

        A write under way is not cancelled: the server might write the note after its deletion.
        """
        self._closing.set()

    async def closed(self) -> None:
        """Close, and wait until that is done, but not for a store that is stuck."""
        self.close()
        await asyncio.wait([self._task], timeout=CLOSE_WITHIN)
        self._task.cancel()

    async def _run(self) -> None:
        while not self._closing.is_set():
            store: Store | None = None
            try:
                store = make_store(self._url)
                async with asyncio.timeout(ANSWER_WITHIN):
                    await store.open()
                await self._watch_until_it_fails(store)
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, workers go on
                self._lost(str(error) or type(error).__name__)
            finally:
                if store is not None:
                    await self._disconnect(store)
            await self._pause()

    async def _watch_until_it_fails(self, store: Store) -> None:
        while not self._closing.is_set():
            async with asyncio.timeout(ANSWER_WITHIN):
                stats, self.facts = await store.stats(), await store.facts()
                self._found(stats)
                await store.note(self._key, self._note(), NOTE_KEPT)
            await self._pause()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._every):
                await self._closing.wait()

    async def _disconnect(self, store: Store) -> None:
        """Delete the note, which would say that this supervisor still runs, and close the store."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_WITHIN / 2):
                await store.note(self._key, None, 0.0)
        with contextlib.suppress(Exception):
            await store.close()

    def _found(self, stats: Stats) -> None:
        if self.away:
            self._tell(Event("store back", self.shown, time.time()))
        self.away = ""
        self.stats = stats
        self._changed()

    def _lost(self, reason: str) -> None:
        if self.away != reason and not self._closing.is_set():
            text = f"{self.shown}: {reason}; what runs is kept"
            self._tell(Event("store away", text, time.time()))
        self.away = reason
        self.stats = None
        self._changed()
