"""Who waits for jobs to end: one connection that subscribes to a channel of each, and no key.

Scripts that end jobs publish only while somebody subscribes to `ended`, and only to the channels of
jobs that somebody waits for: see shared/tell.lua. The server forgets a subscription with its
connection, so a caller that dies leaves nothing behind.
"""

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any

from hiredis import ProtocolError
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from mulligan.core.errors import StoreError
from mulligan.stores.redis.connection import Server, end, pack
from mulligan.stores.redis.errors import AnswerError
from mulligan.stores.redis.nodes import ANSWER_TIMEOUT
from mulligan.stores.redis.wire import INCOMPLETE, Wire
from mulligan.stores.watches import Tell, Watch, Watches

# For how many seconds the connection outlives the last wait: another one often follows.
LINGER = 10.0
RECONNECT_AFTER = 0.1
LOST = (OSError, RedisError, AnswerError, StoreError)


class Channels(Wire):
    """The connection: each message ends waits, and every other answer is that of a command."""

    def __init__(self, connection: AbstractConnection, subscriber: "Subscriber") -> None:
        super().__init__(connection)
        self._subscriber = subscriber
        self._asked: deque[asyncio.Future[None]] = deque()

    def ask(self, command: str, channel: str) -> asyncio.Future[None]:
        """Send a command that has one answer; its future ends when that comes."""
        self._write(pack((command, channel)))
        answered = self._loop.create_future()
        self._asked.append(answered)
        return answered

    def data_received(self, data: bytes) -> None:
        """Tell callers whose job has ended, or answer commands."""
        self._reader.feed(data)
        try:
            while (answer := self._reader.gets()) is not INCOMPLETE:
                self._read(answer)
        except ProtocolError:
            self.close()

    def _read(self, answer: Any) -> None:
        if isinstance(answer, list) and answer[0] == b"message":
            self._subscriber.ended(answer[1].decode())
            return
        asked = self._asked.popleft()
        if isinstance(answer, AnswerError):
            fail(asked, answer)
        elif not asked.done():
            asked.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection was lost."""
        super().connection_lost(error)
        for asked in self._asked:
            fail(asked, ConnectionError("the server closed the connection"))
        self._subscriber.lost(self)


def fail(asked: asyncio.Future[None], error: Exception) -> None:
    """Answer every command with the error; not each of them is awaited."""
    if not asked.done():
        asked.set_exception(error)
        asked.exception()


class Subscriber:
    """Tells the callers of one store when their jobs have ended."""

    def __init__(self, server: Server) -> None:
        self._server = server
        server.on_move = self.moved
        self._watches: Watches[str] = Watches()
        self._channels: Channels | None = None
        self._connecting = asyncio.Lock()
        self._again: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Whether this user may not subscribe.
        self._refused = False

    async def watch(self, job: str, tell: Tell) -> Watch:
        """Subscribe to the channel of the job, unless that has happened."""
        self._loop = asyncio.get_running_loop()
        is_new = job not in self._watches
        self._watches.add(job, tell)
        watch = Watch(partial(self._stop, job, tell), is_told=False)
        if self._refused:
            return watch
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                channels = await self._connected()
                # Who waits for the same job may have subscribed a moment ago.
                await channels.ask("SUBSCRIBE" if is_new else "PING", self._name(job))
            watch.is_told = True
        except AnswerError:
            self._refused = True
        except LOST:
            pass  # the caller looks by itself
        except BaseException:
            watch.close()
            raise
        return watch

    def ended(self, channel: str) -> None:
        """Tell those who wait for the job of the channel."""
        self._watches.tell((channel.removeprefix(self._name("")),))

    def lost(self, channels: Channels) -> None:
        """The connection is gone: have all callers look, and connect anew if one still waits."""
        if self._channels is channels:
            self._channels = None
            self._watches.tell_all()
            if self._watches and self._again is None:
                self._again = asyncio.get_running_loop().create_task(self._reconnect())

    def moved(self) -> None:
        """Jobs end at another server by now: subscribe there, and have all look meanwhile."""
        if self._channels is not None:
            self._channels.close()

    async def close(self) -> None:
        """Let go of the connection."""
        channels, self._channels = self._channels, None
        if channels is not None:
            channels.close()
        if self._again is not None:
            await end(self._again)
            self._again = None

    def _name(self, job: str) -> str:
        return f"{self._server.url.tag}:ended:{job}"

    async def _connected(self) -> Channels:
        async with self._connecting:
            if self._channels is None or self._channels.closed:
                channels = Channels(await self._server.connection_to_holder(), self)
                try:
                    await channels.ask("SUBSCRIBE", f"{self._server.url.tag}:ended")
                except BaseException:
                    channels.close()
                    raise
                self._channels = channels
            return self._channels

    async def _reconnect(self) -> None:
        """Subscribe anew, and have all look for what ended meanwhile."""
        while self._watches:
            with suppress(*LOST, TimeoutError):
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    channels = await self._connected()
                    asked = [channels.ask("SUBSCRIBE", self._name(j)) for j in self._watches.jobs()]
                    await asyncio.gather(*asked)
                break
            await asyncio.sleep(RECONNECT_AFTER)
        self._again = None
        self._watches.tell_all()

    def _stop(self, job: str, tell: Tell) -> None:
        self._watches.remove(job, tell)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and with it the connection
                self._loop.call_soon_threadsafe(self._unsubscribe, job)

    def _unsubscribe(self, job: str) -> None:
        if self._channels is None or self._channels.closed:
            return
        if job not in self._watches:
            self._channels.ask("UNSUBSCRIBE", self._name(job)).cancel()  # nobody awaits it
        if not self._watches:
            asyncio.get_running_loop().call_later(LINGER, self._close_if_idle, self._channels)

    def _close_if_idle(self, channels: Channels) -> None:
        if self._channels is channels and not self._watches:
            self._channels = None
            channels.close()
