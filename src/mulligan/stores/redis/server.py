"""Talking to the server: scripts by their hash, blocking reads, and errors in our own words."""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from hiredis import pack_command
from redis import exceptions as driver
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from mulligan.core.errors import MulliganError, StoreError, StoreUnavailableError
from mulligan.stores.redis.address import Address
from mulligan.stores.redis.scripts import script
from mulligan.stores.redis.wire import Wire

Value = str | bytes | int | float
T = TypeVar("T")

# How long a connection, or the answer to a command, may take; a script takes milliseconds.
ANSWER_WITHIN = 5.0
# Beyond this a blocking read is taken up anew by its caller.
LONGEST_BLOCK = 3600.0
# How long after its time a blocking read may still be answered before the server counts as gone.
GRACE = 5.0
# The first word of an answer that says: not now.
PASSING = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MISCONF", "NOREPLICAS")

# What an error of the driver means, the special before the general.
MEANINGS: tuple[tuple[type[Exception], type[StoreError], str], ...] = (
    (
        driver.AuthenticationError,
        StoreError,
        "refused the user or password; check the store's URL",
    ),
    (
        driver.OutOfMemoryError,
        StoreError,
        "is out of memory and took none of this batch; raise maxmemory, or let workers finish",
    ),
    (driver.ReadOnlyError, StoreUnavailableError, "is a replica that takes no writes"),
    (driver.TimeoutError, StoreUnavailableError, "did not answer in time"),
    (TimeoutError, StoreUnavailableError, "did not answer in time"),
)


class Server:
    """Connections to one server, made when needed and made anew when lost."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._wires: set[Wire] = set()
        self._idle: list[Wire] = []

    async def run(self, name: str, *values: Value, writes: bool = True) -> Any:
        """Run a script, in one round trip unless the server has to be sent its text first.

        Nothing is sent twice here: whether the server ran a script whose answer was lost is for
        the caller to find out.
        """
        made = script(name)
        words: list[Value] = ["EVALSHA", made.sha, 1, self.address.tag, *values]
        try:
            return await self._send(words, writes=writes)
        except NoScriptError:
            words[:2] = ["EVAL", made.source]
            return await self._answer(self._send(words, writes=writes))
        except (RedisError, OSError) as error:
            raise self.explained(error) from error

    async def _send(self, words: Sequence[Value], *, writes: bool) -> Any:
        packed = [pack(words)]
        replicas = self.address.wait_replicas if writes else 0
        if replicas:
            milliseconds = int(self.address.wait_timeout * 1000)
            packed.append(pack(("WAIT", replicas, milliseconds)))
        answer, *reached = await self._exchange(packed, self._patience)
        if replicas and reached[0] < replicas:
            message = (
                f"{self.address.shown} wrote, but {reached[0]} of {replicas} replicas acknowledged"
                f" within {self.address.wait_timeout:g} s: the write may be lost in a failover."
                " Sending it again is safe"
            )
            raise StoreUnavailableError(message)
        return answer

    async def _exchange(self, packed: Sequence[bytes], patience: float | None) -> list[Any]:
        wire = self._free_wire() or await self._connect()
        return await self._over(wire, packed, patience)

    async def _over(self, wire: Wire, packed: Sequence[bytes], patience: float | None) -> list[Any]:
        try:
            answers = await wire.exchange(packed, patience)
        finally:
            self._idle.append(wire)
        for answer in answers:
            if isinstance(answer, RedisError):
                raise answer
        return answers

    def _free_wire(self) -> Wire | None:
        while self._idle:
            wire = self._idle.pop()
            if not wire.closed:
                return wire
            self._wires.discard(wire)
        return None

    async def _connect(self) -> Wire:
        """Make a connection, apart: the driver may swallow a cancellation that meets it there."""
        connection = self._driver.make_connection()  # type: ignore[no-untyped-call]
        connecting = asyncio.create_task(connection.connect())
        try:
            await asyncio.wait({connecting})
        except BaseException:
            await end(connecting)
            await connection.disconnect(nowait=True)
            raise
        connecting.result()
        wire = Wire(connection)
        self._wires.add(wire)
        return wire

    async def command(self, *words: Value) -> Any:
        """Send one plain command."""
        return await self._answer(self._send(words, writes=False))

    async def block(self, seconds: float, *words: Value) -> Any:
        """Send a command that blocks for up to this long.

        The time is added as the last word. Gives None when it is up.
        """
        patience = min(seconds, LONGEST_BLOCK)
        packed = pack((*words, f"{max(patience, 0.001):.3f}"))
        return (await self._answer(self._exchange([packed], patience + GRACE)))[0]

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
        except (RedisError, OSError) as error:
            raise self.explained(error) from error

    async def _answer(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except (RedisError, OSError) as error:
            raise self.explained(error) from error

    @cached_property
    def _driver(self) -> ConnectionPool:
        """What makes connections; it keeps none."""
        replicas = self.address.wait_timeout if self.address.wait_replicas else 0.0
        defaults: dict[str, Any] = {
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": ANSWER_WITHIN + replicas,
            "socket_connect_timeout": ANSWER_WITHIN,
        }
        return ConnectionPool.from_url(self.address.url, **defaults)

    @cached_property
    def _patience(self) -> float:
        """How long the answer to a command is waited for."""
        return float(self._driver.connection_kwargs["socket_timeout"])

    async def close(self) -> None:
        """Close every connection; the next command opens new ones."""
        wires, self._wires = self._wires, set()
        self._idle.clear()
        for wire in wires:
            wire.close()
        await asyncio.sleep(0)  # their sockets are closed by the loop

    def explained(self, error: Exception) -> MulliganError:
        """The driver's error in our own words, which never hold a password."""
        shown = self.address.shown
        for kind, make, sentence in MEANINGS:
            if isinstance(error, kind):
                return make(f"{shown} {sentence}")
        if isinstance(error, driver.ConnectionError | OSError):
            return StoreUnavailableError(f"{shown} cannot be reached: {reason(error)}")
        if str(error).startswith(PASSING):
            return StoreUnavailableError(f"{shown} cannot answer now: {error}")
        return StoreError(f"{shown} refused: {error}")


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


def reason(error: Exception) -> str:
    """What the system said, without what the driver puts around it."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return type(error).__name__
