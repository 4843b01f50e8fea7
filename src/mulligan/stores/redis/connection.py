"""Talking to the server: scripts by their hash, plain commands, and commands that block."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.stores.redis.errors import ELSEWHERE, AnswerError, explain, is_elsewhere
from mulligan.stores.redis.nodes import Nodes
from mulligan.stores.redis.scripts import Script, script
from mulligan.stores.redis.url import RedisUrl
from mulligan.stores.redis.wire import Wire

Value = str | bytes | int | float
# Runs a script by its name, given the values after the time.
Run = Callable[..., Awaitable[Any]]
T = TypeVar("T")

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
        self.nodes = Nodes(url)
        # Called when the keys are looked for at another server.
        self.on_move: Callable[[], None] | None = None
        self._wires: set[Wire] = set()
        self._idle: list[Wire] = []
        self._listening: set[Wire] = set()

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
            except (RedisError, OSError):
                self._leave(None)
                raise
        raise AssertionError("the last attempt returns or raises")

    async def _over(self, wire: Wire, packed: Sequence[bytes], within: float | None) -> list[Any]:
        try:
            answers = await wire.exchange(packed, within)
        finally:
            self._idle.append(wire)
        for answer in answers:
            if isinstance(answer, AnswerError):
                if is_elsewhere(answer):
                    self._leave(answer)
                raise answer
        return answers

    def _leave(self, said: AnswerError | None) -> None:
        """Connect anew, and to where the server says, or to another if it said nothing.

        Idle connections are closed: after a failover the same name leads to another server, and
        those of before an outage may be lost without a word, each to be found out by a timeout.
        """
        if said is None:
            self.nodes.lost()
        else:
            self.nodes.moved(said)
        while self._idle:
            wire = self._idle.pop()
            wire.close()
            self._wires.discard(wire)
        if self.nodes.is_several:
            for listening in list(self._listening):
                listening.close()
            if self.on_move is not None:
                self.on_move()

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
        connecting = asyncio.create_task(self.nodes.connect())
        try:
            await asyncio.wait({connecting})
        except BaseException:
            await end(connecting)
            if not connecting.cancelled() and connecting.exception() is None:
                await connecting.result().disconnect(nowait=True)
            raise
        return connecting.result()

    async def connection_to_holder(self) -> AbstractConnection:
        """Make a connection for commands of which no node says that they are for another one."""
        if self.nodes.in_cluster:
            await self.command("EXISTS", f"{self.url.tag}:layout")
        return await self.connection()

    async def learn_nodes(self) -> None:
        """Learn all nodes of a cluster, so that any of them may fail."""
        try:
            self.nodes.learn(await self.command("CLUSTER", "SLOTS"))
        except StoreUnavailableError:
            raise
        except StoreError:
            self.nodes.in_cluster = True  # this user may not ask; the URL's hosts are known

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
        moves = self.nodes.moves
        try:
            wire = self._free_wire() or await self._connect()
            self._listening.add(wire)
            try:
                await self._over(wire, [packed], until - clock())
            finally:
                self._listening.discard(wire)
        except TimeoutError:
            return
        except (AnswerError, RedisError, OSError) as error:
            if isinstance(error, AnswerError) and is_elsewhere(error):
                return  # what comes next goes where this says
            if self.nodes.is_several and self.nodes.moves != moves:
                return  # the keys are elsewhere by now
            raise explain(error, self.url) from error

    async def _answer(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except (AnswerError, RedisError, OSError) as error:
            raise explain(error, self.url) from error

    @cached_property
    def _answer_timeout(self) -> float:
        """How many seconds the answer to a command is waited for."""
        return float(self.nodes.home.connection_kwargs["socket_timeout"])

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
