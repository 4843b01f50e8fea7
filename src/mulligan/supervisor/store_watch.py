"""What a store says, looked at every second or two; one that does not answer stops nothing."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from mulligan.core.facts import Facts
from mulligan.core.stats import Stats
from mulligan.stores import make_store, redact
from mulligan.stores.contract import Store
from mulligan.supervisor.events import Event, Tell

# A store that takes longer to answer does not.
ANSWER_WITHIN = 10.0
CLOSE_WITHIN = 5.0
NOTE_KEPT = 30.0


class Sight:
    """One store: its last answer, or why there is none.

    Each time it has answered, `changed` is called, and it is given the note that `note` makes.
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
        """Look no more, and let the note be forgotten.

        What is under way is not cancelled: the server might write it after the forgetting.
        """
        self._closing.set()

    async def closed(self) -> None:
        """Close, and wait until that is done; a store that is stuck holds nobody up."""
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
                await self._look_until_it_fails(store)
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, workers go on
                self._lost(str(error) or type(error).__name__)
            finally:
                if store is not None:
                    await self._part(store)
            await self._pause()

    async def _look_until_it_fails(self, store: Store) -> None:
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

    async def _part(self, store: Store) -> None:
        """A note that outlives us would say that we still run."""
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
