"""Talking to the server: scripts by their hash, plain commands, and commands that block."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from hiredis import pack_command
from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from mulligan.core.errors import StoreUnavailableError
from mulligan.stores.redis.errors import ELSEWHERE, AnswerError, explain, is_elsewhere, node_of
from mulligan.stores.redis.scripts import Script, script
from mulligan.stores.redis.url import RedisUrl
from mulligan.stores.redis.wire import Wire

Value = str | bytes | int | float
# Runs a script by its name, given the values after the time.
Run = Callable[..., Awaitable[Any]]
T = TypeVar("T")

# How long a connection, or the answer to a command, may take; a script takes milliseconds.
ANSWER_TIMEOUT = 5.0
# Beyond this a blocking read is taken up anew by its caller.
LONGEST_BLOCK = 3600.0
# How long after its time a blocking read may still be answered before the server counts as gone.
GRACE = 5.0
# How often a command that was not carried out is sent to where it belongs.
ATTEMPTS = 3


class Server:
    """Connections to one server, made when needed and made anew when lost."""

    def __init__(self, url: RedisUrl) -> None:
        self.url = url
        # Whether the server tells scripts that only read from those that write.
        self.knows_readers = False
        # The node of a cluster that holds the keys, where another than the URL's is known to.
        self._node: ConnectionPool | None = None
        self._wires: set[Wire] = set()
        self._idle: list[Wire] = []

    async def run(self, name: str, *values: Value) -> Any:
        """Run a script, in one round trip unless the server has to be sent its text first.

        Nothing is sent again that may have been done: whether the server ran a script whose answer
        was lost is for the caller to find out.
        """
        return await self._evaluate(script(name), values, writes=True)

    async def read(self, name: str, *values: Value, tolerant: bool = False) -> Any:
        """Run a script that only reads; to a `tolerant` one, values of a wrong type are absent.

        A server that knows such scripts refuses to let one write, and needs no right to.
        """
        return await self._evaluate(script(name, tolerant=tolerant), values, writes=False)

    async def _evaluate(self, made: Script, values: Sequence[Value], *, writes: bool) -> Any:
        kind = "_RO" if self.knows_readers and not writes else ""
        words: list[Value] = [f"EVALSHA{kind}", made.sha, 1, self.url.tag, *values]
        try:
            return await self._send(words, writes=writes)
        except (AnswerError, RedisError, OSError) as error:
            if not (isinstance(error, AnswerError) and error.code == "NOSCRIPT"):
                raise explain(error, self.url) from error
        words[:2] = [f"EVAL{kind}", made.source]
        return await self._answer(self._send(words, writes=writes))

    async def _send(self, words: Sequence[Value], *, writes: bool) -> Any:
        packed = [pack(words)]
        replicas = self.url.wait_replicas if writes else 0
        if replicas:
            milliseconds = int(self.url.wait_timeout * 1000)
            packed.append(pack(("WAIT", replicas, milliseconds)))
        answer, *reached = await self._exchange(packed, self._answer_timeout)
        if replicas and reached[0] < replicas:
            message = (
                f"{self.url.shown} wrote, but {reached[0]} of {replicas} replicas acknowledged"
                f" within {self.url.wait_timeout:g} s: the write may be lost in a failover."
                " Sending it again is safe"
            )
            raise StoreUnavailableError(message)
        return answer

    async def _exchange(self, packed: Sequence[bytes], within: float | None) -> list[Any]:
        """Send commands and give their answers, from the node that they are for."""
        for left in reversed(range(ATTEMPTS)):
            wire = self._free_wire() or await self._connect()
            try:
                return await self._over(wire, packed, within)
            except AnswerError as error:
                if not left or error.code not in ELSEWHERE:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _over(self, wire: Wire, packed: Sequence[bytes], within: float | None) -> list[Any]:
        try:
            answers = await wire.exchange(packed, within)
        finally:
            self._idle.append(wire)
        for answer in answers:
            if isinstance(answer, AnswerError):
                self._heed(answer)
                raise answer
        return answers

    def _heed(self, error: AnswerError) -> None:
        """Connect anew, and to where the server says, if the error says that it is elsewhere.

        After a failover the same name leads to another server, but no connection that is there.
        """
        if not is_elsewhere(error):
            return
        while self._idle:
            wire = self._idle.pop()
            wire.close()
            self._wires.discard(wire)
        if error.code == "MOVED" and issubclass(self._home.connection_class, Connection):
            host, port = node_of(error)
            node = {
                "host": host or self._driver.connection_kwargs.get("host", "localhost"),
                "port": port,
            }
            self._node = ConnectionPool(
                self._home.connection_class, **{**self._home.connection_kwargs, **node}
            )

    def _free_wire(self) -> Wire | None:
        while self._idle:
            wire = self._idle.pop()
            if not wire.closed:
                return wire
            self._wires.discard(wire)
        return None

    async def _connect(self) -> Wire:
        wire = Wire(await self.connection())
        self._wires.add(wire)
        return wire

    async def connection(self) -> AbstractConnection:
        """Make a connection, apart: the driver may swallow a cancellation that meets it there."""
        connection = self._driver.make_connection()  # type: ignore[no-untyped-call]
        connecting = asyncio.create_task(connection.connect())
        try:
            await asyncio.wait({connecting})
        except BaseException:
            await end(connecting)
            await connection.disconnect(nowait=True)
            raise
        if connecting.exception() is not None:
            self._node = None  # the URL's own will know who holds the keys now
        connecting.result()
        made: AbstractConnection = connection
        return made

    async def command(self, *words: Value) -> Any:
        """Send one plain command."""
        return await self._answer(self._send(words, writes=False))

    async def block(self, seconds: float, *words: Value) -> Any:
        """Send a command that blocks for up to this long.

        The time is added as the last word. Gives None when it is up.
        """
        timeout = min(seconds, LONGEST_BLOCK)
        packed = pack((*words, f"{max(timeout, 0.001):.3f}"))
        return (await self._answer(self._exchange([packed], timeout + GRACE)))[0]

    async def listen(self, seconds: float, *words: Value) -> None:
        """Send a command that blocks until something happens, for exactly this long at the most.

        The server keeps such times to a tenth of a second only, so the time is kept here, and the
        connection is dropped when it is up: the answer must be one that may be lost.
        """
        packed = pack((*words, f"{min(seconds, LONGEST_BLOCK) + GRACE:.3f}"))
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        try:
            wire = self._free_wire() or await self._connect()
            await self._over(wire, [packed], until - clock())
        except TimeoutError:
            return
        except (AnswerError, RedisError, OSError) as error:
            if isinstance(error, AnswerError) and is_elsewhere(error):
                return  # what comes next goes where this says
            raise explain(error, self.url) from error

    async def _answer(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except (AnswerError, RedisError, OSError) as error:
            raise explain(error, self.url) from error

    @property
    def _driver(self) -> ConnectionPool:
        """What makes connections; it keeps none."""
        return self._node or self._home

    @cached_property
    def _home(self) -> ConnectionPool:
        """What makes connections to where the URL says."""
        replicas = self.url.wait_timeout if self.url.wait_replicas else 0.0
        defaults: dict[str, Any] = {
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": ANSWER_TIMEOUT + replicas,
            "socket_connect_timeout": ANSWER_TIMEOUT,
        }
        return ConnectionPool.from_url(self.url.driver, **defaults)

    @cached_property
    def _answer_timeout(self) -> float:
        """How many seconds the answer to a command is waited for."""
        return float(self._home.connection_kwargs["socket_timeout"])

    async def close(self) -> None:
        """Close every connection; the next command opens new ones."""
        wires, self._wires = self._wires, set()
        self._idle.clear()
        for wire in wires:
            wire.close()
        await asyncio.sleep(0)  # their sockets are closed by the loop


def pack(words: Sequence[Value]) -> bytes:
    """A command as it is sent. The driver would do this in Python, word by word."""
    packed: bytes = pack_command(tuple(words))  # type: ignore[arg-type]  # its stub: one word only
    return packed


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task that talks to the server until it has ended.

    The driver may swallow a cancellation that meets it while it connects.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
    if not task.cancelled():
        task.exception()
