"""Talking to the server: scripts by their hash, blocking reads, and errors in our own words."""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from hiredis import pack_command
from redis import exceptions as driver
from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from mulligan.core.errors import MulliganError, StoreError, StoreUnavailableError
from mulligan.stores.redis.address import Address
from mulligan.stores.redis.scripts import Script, script
from mulligan.stores.redis.wire import AnswerError, Wire

Value = str | bytes | int | float
T = TypeVar("T")

# How long a connection, or the answer to a command, may take; a script takes milliseconds.
ANSWER_WITHIN = 5.0
# Beyond this a blocking read is taken up anew by its caller.
LONGEST_BLOCK = 3600.0
# How long after its time a blocking read may still be answered before the server counts as gone.
GRACE = 5.0
# How often a command that was not carried out is sent to where it belongs.
ATTEMPTS = 3

# What an answer means, by its first word.
NOT_NOW = ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "MISCONF", "NOREPLICAS"]
WRONG_USER = ["NOAUTH", "WRONGPASS"]
# This node was the primary, or held the keys, and is or does no longer; nothing was done.
ELSEWHERE = ["READONLY", "MOVED"]
# It broke off a read that blocked, for the same reason.
BROKEN_OFF = "UNBLOCKED"

REFUSED_USER = "refused the user or password; check the store's URL"
FULL = "is out of memory and took none of this batch; raise maxmemory, or let workers finish"
REPLICA = "is a replica that takes no writes"
LATE = "did not answer in time"


class Server:
    """Connections to one server, made when needed and made anew when lost."""

    def __init__(self, address: Address) -> None:
        self.address = address
        # Whether the server tells scripts that only read from others.
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

    async def read(self, name: str, *values: Value, around: bool = False) -> Any:
        """Run a script that only reads, `around` what is of another kind than it should be.

        A server that knows such scripts refuses to let one write, and needs no right to.
        """
        return await self._evaluate(script(name, around=around), values, writes=False)

    async def _evaluate(self, made: Script, values: Sequence[Value], *, writes: bool) -> Any:
        kind = "_RO" if self.knows_readers and not writes else ""
        words: list[Value] = [f"EVALSHA{kind}", made.sha, 1, self.address.tag, *values]
        try:
            return await self._send(words, writes=writes)
        except (AnswerError, RedisError, OSError) as error:
            if not (isinstance(error, AnswerError) and error.code == "NOSCRIPT"):
                raise self.explained(error) from error
        words[:2] = [f"EVAL{kind}", made.source]
        return await self._answer(self._send(words, writes=writes))

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
        """Send commands and give their answers, from the node that they are for."""
        for left in reversed(range(ATTEMPTS)):
            wire = self._free_wire() or await self._connect()
            try:
                return await self._over(wire, packed, patience)
            except AnswerError as error:
                if not left or error.code not in ELSEWHERE:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _over(self, wire: Wire, packed: Sequence[bytes], patience: float | None) -> list[Any]:
        try:
            answers = await wire.exchange(packed, patience)
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
            host, port = place_of(error)
            at = {
                "host": host or self._driver.connection_kwargs.get("host", "localhost"),
                "port": port,
            }
            self._node = ConnectionPool(
                self._home.connection_class, **{**self._home.connection_kwargs, **at}
            )

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
        if connecting.exception() is not None:
            self._node = None  # the URL's own will know who holds the keys now
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
        except (AnswerError, RedisError, OSError) as error:
            if isinstance(error, AnswerError) and is_elsewhere(error):
                return  # what comes next goes where this says
            raise self.explained(error) from error

    async def _answer(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except (AnswerError, RedisError, OSError) as error:
            raise self.explained(error) from error

    @property
    def _driver(self) -> ConnectionPool:
        """What makes connections; it keeps none."""
        return self._node or self._home

    @cached_property
    def _home(self) -> ConnectionPool:
        """What makes connections to where the URL says."""
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
        return float(self._home.connection_kwargs["socket_timeout"])

    async def close(self) -> None:
        """Close every connection; the next command opens new ones."""
        wires, self._wires = self._wires, set()
        self._idle.clear()
        for wire in wires:
            wire.close()
        await asyncio.sleep(0)  # their sockets are closed by the loop

    def explained(self, error: Exception) -> MulliganError:
        """The driver's or the server's error in our own words, which never hold a password."""
        shown = self.address.shown
        if isinstance(error, AnswerError):
            make, sentence = meaning_of(error, self.address.tag)
            return make(f"{shown} {sentence}")
        if isinstance(error, driver.AuthenticationError):
            return StoreError(f"{shown} {REFUSED_USER}")
        if isinstance(error, driver.TimeoutError | TimeoutError):
            return StoreUnavailableError(f"{shown} {LATE}")
        if isinstance(error, driver.ConnectionError | OSError):
            return StoreUnavailableError(f"{shown} cannot be reached: {reason(error)}")
        return StoreError(f"{shown} refused: {error}")


def meaning_of(error: AnswerError, tag: str) -> tuple[type[StoreError], str]:
    """What the server said, in a sentence about it."""
    match error.code:
        case code if code in WRONG_USER:
            return StoreError, REFUSED_USER
        case "OOM":
            return StoreError, FULL
        case "MOVED" | "ASK":
            verb = "gave" if error.code == "MOVED" else "is giving"
            host, port = place_of(error)
            whom = f"the node at {host or 'its own host'}:{port}"
            return StoreUnavailableError, f"{verb} the cluster's slot of the keys {tag}:* to {whom}"
        case _ if is_elsewhere(error):
            return StoreUnavailableError, REPLICA
        case code if code in NOT_NOW:
            return StoreUnavailableError, f"cannot answer now: {error}"
    return StoreError, f"refused: {error}"


def is_elsewhere(error: AnswerError) -> bool:
    """Whether the server says that it is not, or no longer, the one to ask."""
    if error.code in ELSEWHERE or error.code == BROKEN_OFF:
        return True
    return str(error).startswith("WAIT cannot be used with replica")


def place_of(error: AnswerError) -> tuple[str, int]:
    """The host and port that a node of a cluster refers to; no host if it is that node's own."""
    host, _, port = str(error).split(" ")[2].rpartition(":")
    return host.strip("?"), int(port)


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
