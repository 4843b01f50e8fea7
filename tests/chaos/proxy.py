"""A TCP proxy that does what networks do: cuts, delays, dribbles, swallows, and loses replies."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

LOOPBACK = "127.0.0.1"
CHUNK = 64 * 1024
# A message that dribbles comes in so many pieces, this far apart.
PIECES, BETWEEN = 20, 0.005


class Proxy:
    """Passes bytes on between its own port and another, on a thread of its own.

    While `deaf`, the server hears everything and nothing that it answers arrives; whoever has
    missed an answer is cut off when that ends, as nothing after it could be understood.

    While it `swallows`, nothing arrives on either side. A connection that has lost something then
    stays open, and mute for ever.
    """

    def __init__(self, to_port: int) -> None:
        self.to = to_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._open: set[asyncio.StreamWriter] = set()
        self.missed: set[asyncio.StreamWriter] = set()
        self.swallowed: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.delay = 0.0
        self.dribbles = False
        self.deaf = False
        self.swallows = False

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """End every connection now, in the middle of whatever it carries."""
        self._loop.call_soon_threadsafe(self._abort, self._open)

    def hear(self) -> None:
        """Be deaf no longer, and cut off who has missed something."""
        self.deaf = False
        self._loop.call_soon_threadsafe(self._abort, self.missed)

    def _abort(self, writers: set[asyncio.StreamWriter]) -> None:
        for writer in list(writers):
            writer.transport.abort()
        self.missed -= writers

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._abort(self._open)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # transports that were aborted close in the next round

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, server = await asyncio.open_connection(LOOPBACK, self.to)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, server}
        try:
            await asyncio.gather(
                self._pump(reader, server, lambda: self._is_mute(writer)),
                self._pump(answers, writer, lambda: self._is_missed(writer)),
            )
        finally:
            self._open -= {writer, server}
            self.missed.discard(writer)
            self.swallowed.discard(writer)

    def _is_mute(self, writer: asyncio.StreamWriter) -> bool:
        if self.swallows:
            self.swallowed.add(writer)
        return writer in self.swallowed

    def _is_missed(self, writer: asyncio.StreamWriter) -> bool:
        if self.deaf:
            self.missed.add(writer)
        return self._is_mute(writer) or writer in self.missed

    async def _pump(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        is_missed: Callable[[], bool],
    ) -> None:
        """Pass on all that comes; when either side ends, so does the other."""
        with suppress(OSError):
            while data := await source.read(CHUNK):
                if not is_missed():
                    await self._pass_on(data, target)
        target.close()

    async def _pass_on(self, data: bytes, target: asyncio.StreamWriter) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        size = -(-len(data) // PIECES) if self.dribbles else len(data)
        for start in range(0, len(data), size):
            target.write(data[start : start + size])
            await target.drain()
            if self.dribbles:
                await asyncio.sleep(BETWEEN)
