"""Live changes: reads the store once a second and sends what changed to all listeners."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from mulligan.core.errors import StoreError
from mulligan.server.problems import Refusal

log = logging.getLogger("mulligan.server")
LISTENERS = 100
LOOK_EVERY = 1.0
# A job that is followed is looked at as often as its progress is sent.
JOB_LOOK_EVERY = 0.5
# Proxies cut connections that are silent for long.
COMMENT_EVERY = 15.0
# How many events a slow listener may be behind before it gets a whole snapshot instead.
BEHIND = 16
BY_NAME = ("regions", "queues", "delayed", "recent", "fleets")
COMMENT = b": still here\n\n"
Document = dict[str, Any]
Listener = asyncio.Queue[bytes | None]


class Hub:
    """Reads the store while there are listeners, once for all of them."""

    def __init__(
        self, look: Callable[[], Awaitable[Document]], *, every: float = LOOK_EVERY
    ) -> None:
        self._look = look
        self._every = every
        self._listeners: set[Listener] = set()
        self._looking: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._last: Document = {}
        self._stopped = False
        # False where a stream would hold a thread, or a whole process, of the web server.
        self.streams = True

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def join(self) -> Listener:
        """Add a listener; refused if there are too many."""
        if not self.streams:
            raise Refusal("too-many", "no events are streamed here; ask again for what they tell")
        if len(self._listeners) >= LISTENERS:
            raise Refusal(
                "too-many", f"{LISTENERS} listen already; close one, or ask /api/overview"
            )
        listener: Listener = asyncio.Queue(BEHIND)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Remove a listener; after the last one the store is no longer read."""
        self._listeners.discard(listener)
        if not self._listeners and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def stop(self) -> None:
        """End all streams."""
        self._stopped = True
        for listener in self._listeners:
            tell(listener, None)

    async def stream(self, listener: Listener) -> AsyncIterator[bytes]:
        """A snapshot and then changes, as server-sent events."""
        async with self._starting:
            if self._looking is None:
                self._last = await self._look()
                self._looking = asyncio.ensure_future(self._keep_looking())
        yield event("snapshot", self._last)
        while not self._stopped:
            try:
                message = await asyncio.wait_for(listener.get(), COMMENT_EVERY)
            except TimeoutError:
                message = COMMENT
            if message is None:
                return
            yield message

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                now = await self._look()
                changes = difference(self._last, now)
            except (StoreError, OSError) as error:
                log.warning("events: %s", error)
                continue
            except Exception:  # a bug must not end the stream of all listeners
                log.exception("events: the store could not be looked at; going on")
                continue
            self._last = now
            if changes:
                self._tell_all(event("change", changes | {"now": now["now"]}))

    def _tell_all(self, change: bytes) -> None:
        for listener in self._listeners:
            if listener.full():  # too slow: a snapshot has what it missed
                tell(listener, event("snapshot", self._last))
            else:
                listener.put_nowait(change)


class JobHubs:
    """A hub for each job that somebody follows; all together have as many listeners as one."""

    def __init__(
        self, look: Callable[[str], Awaitable[Document]], *, every: float = JOB_LOOK_EVERY
    ) -> None:
        self._look = look
        self._every = every
        self._hubs: dict[str, Hub] = {}
        self.streams = True  # as of a hub

    def of(self, job: str) -> Hub:
        """The hub of the job; refused if too many listen already."""
        self._hubs = {name: hub for name, hub in self._hubs.items() if hub.listeners}
        if sum(hub.listeners for hub in self._hubs.values()) >= LISTENERS:
            raise Refusal(
                "too-many",
                f"{LISTENERS} follow jobs already; close one, or ask /api/jobs/{job}/records",
            )
        hub = self._hubs.setdefault(job, Hub(partial(self._look, job), every=self._every))
        hub.streams = self.streams
        return hub

    def stop(self) -> None:
        """End all streams."""
        for hub in self._hubs.values():
            hub.stop()


def tell(listener: Listener, what: bytes | None) -> None:
    """Replace all that waits in the listener's queue by this."""
    while not listener.empty():
        listener.get_nowait()
    listener.put_nowait(what)


def difference(before: Document, after: Document) -> Document:
    """What changed: entries of objects one by one, null for one that is gone, all else as a whole.

    A new time alone is no change.
    """
    changes: Document = {}
    for part, value in after.items():
        old = before.get(part)
        if part == "now" or old == value:
            continue
        if part in BY_NAME and isinstance(old, dict):
            changed = {name: entry for name, entry in value.items() if old.get(name) != entry}
            changes[part] = changed | dict.fromkeys(old.keys() - value.keys())
        else:
            changes[part] = value
    return changes


def event(name: str, data: Document) -> bytes:
    """A server-sent event; JSON has no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
