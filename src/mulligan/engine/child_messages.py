"""What a worker, its fork server and its child processes say to each other over sockets.

A message is its length in four bytes, then MessagePack. All ends run the same release: a worker
starts its own fork server.
"""

import socket
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from mulligan.core.job import Claim
from mulligan.core.outcome import Failed, Result, Snoozed, Succeeded
from mulligan.core.record import RecordKind
from mulligan.core.settings import Settings
from mulligan.engine.result_gate import Raised

HEAD = 4
T = TypeVar("T")


class AppPath(Struct, frozen=True):
    """Where a child finds the app: in a module, or in the script that was run (`file`)."""

    module: str
    attribute: str
    file: str = ""

    def __str__(self) -> str:
        return f"{self.file or self.module}:{self.attribute}"


class Setup(Struct, frozen=True):
    """The first message to a fork server: what to import, and what the worker has set."""

    app: AppPath
    settings: Settings
    log_level: int


class Loaded(Struct, frozen=True, tag=True):
    """The fork server has imported the app, or could not, and why."""

    error: str = ""


class Fork(Struct, frozen=True, tag=True):
    """Start a child; its end of a socket comes along."""


class Kill(Struct, frozen=True, tag=True):
    """Kill a child and what it has started; nothing happens if it has ended."""

    pid: int


class Forked(Struct, frozen=True, tag=True):
    """A child has started, or could not, and why; answers are in the order of the requests."""

    pid: int = 0
    error: str = ""


class Exited(Struct, frozen=True, tag=True):
    """A child has ended: its exit code, or minus the number of the signal that ended it."""

    pid: int
    code: int


class Run(Struct, frozen=True, tag=True):
    """Run the attempt of a claim; `arrived` is what a gathering job has waited for.

    `trace` is the span of the attempt, if it has one.
    """

    claim: Claim
    arrived: dict[int, bytes | None] | None = None
    trace: dict[str, str] = {}


class Ended(Struct, frozen=True, tag=True):
    """The result of the attempt."""

    succeeded: Succeeded | None = None
    failed: Failed | None = None
    snoozed: Snoozed | None = None

    @property
    def result(self) -> Result:
        """The result that is set."""
        result = self.succeeded or self.failed or self.snoozed
        assert result is not None  # noqa: S101 - `ended` sets one
        return result


class Asked(Struct, frozen=True, tag=True):
    """The attempt asks for its records: to begin a step, to write one, or for its checkpoint."""

    what: Literal["begin", "write", "checkpoint"]
    kind: RecordKind = "step"
    name: str = ""
    value: bytes = b""


class Answered(Struct, frozen=True, tag=True):
    """The answer, or why there is none: that it was refused, or that the lease was lost."""

    value: bytes | None = None
    refused: str = ""
    lost: str = ""


class Noted(Struct, frozen=True, tag=True):
    """Progress or a log line of the attempt; needs no answer."""

    kind: RecordKind
    value: bytes


class Spent(Struct, frozen=True, tag=True):
    """What the attempt has spent of a limit; needs no answer."""

    limit: str
    cost: int


class Logged(Struct, frozen=True, tag=True):
    """A log record of a child, for the worker's log: its attributes that can be carried."""

    record: dict[str, Any]


Request = Fork | Kill
Answer = Loaded | Forked | Exited
Told = Ended | Logged | Asked | Noted | Spent
encode = msgspec.msgpack.Encoder().encode


def ended(result: Result) -> Ended:
    """The message for a result."""
    match result:
        case Succeeded():
            return Ended(succeeded=result)
        case Snoozed():
            return Ended(snoozed=result)
        case Raised():  # an exception cannot be sent
            return Ended(failed=result.told)
        case Failed():
            return Ended(failed=result)
        case _:
            raise TypeError(result)


def framed(message: Any) -> bytes:
    """The message as bytes to send."""
    body = encode(message)
    return len(body).to_bytes(HEAD) + body


def receive(connection: socket.socket, decoder: "msgspec.msgpack.Decoder[T]") -> T | None:
    """Wait for the next message; None when the other end is closed."""
    head = receive_exactly(connection, HEAD)
    body = None if head is None else receive_exactly(connection, int.from_bytes(head))
    return None if body is None else decoder.decode(body)


def receive_exactly(connection: socket.socket, length: int) -> bytes | None:
    """So many bytes; None when the other end is closed."""
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


class Frames:
    """Puts messages together from what arrives in pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        """The bodies of the messages that are whole now."""
        rest = self._rest
        rest += data
        whole = []
        while len(rest) >= HEAD and len(rest) >= (end := HEAD + int.from_bytes(rest[:HEAD])):
            whole.append(bytes(rest[HEAD:end]))
            del rest[:end]
        return whole
