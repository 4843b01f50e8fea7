"""A child process, from the worker's side: it runs one attempt at a time."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mulligan.core.outcome import Result
from mulligan.core.signals import LeaseLost
from mulligan.engine.attempt_records import TaskRecords
from mulligan.engine.child_messages import (
    HEAD,
    Answered,
    Asked,
    Kill,
    Logged,
    Noted,
    Run,
    Spent,
    Told,
    framed,
)
from mulligan.engine.loops import cancel_tasks

log = logging.getLogger("mulligan.worker")
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
# How often the memory of an attempt is looked at.
LOOK_EVERY = 0.05
# How long an idle child may take to end, and the fork server to say how a child ended.
END_WITHIN = 2.0
# The bytes of a message: far more than a result, its records and its logs may have.
LONGEST = 256 * 1024 * 1024


class DiedError(Exception):
    """A child process has ended in the middle of an attempt; `code` is as `Exited` has it."""

    def __init__(self, code: int | None) -> None:
        super().__init__(in_words(code))


def in_words(code: int | None) -> str:
    """How a child ended, as people say it."""
    if code is None:
        return "how is not known"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    out_of_memory = "; perhaps the system was out of memory" if -code == signal.SIGKILL else ""
    return f"killed by {name}{out_of_memory}"


class ChildProcess:
    """The worker's end of a child: runs one attempt at a time in it."""

    def __init__(self, pid: int, tell: Callable[[Any], None]) -> None:
        self.pid = pid
        self.alive = True
        self.exceeded = 0  # bytes, if it was killed for them
        self.ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._tell = tell  # the fork server, which has started it
        self._result: asyncio.Future[Result] | None = None
        self._records_of: Callable[[], TaskRecords] = no_attempt
        self._answering: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def connect(self, connection: socket.socket) -> None:
        """Use this end of the socket."""
        reader, self._writer = await asyncio.open_connection(sock=connection)
        self._reading = asyncio.ensure_future(self._read(reader))

    async def run(self, run: Run, records: Callable[[], TaskRecords]) -> Result:
        """Run an attempt; raises DiedError if the process ends first.

        What it records goes to `records`; raises LeaseLost where those do.
        """
        self._records_of = records
        self._result = asyncio.get_running_loop().create_future()
        assert self._writer is not None  # noqa: S101 - set by `connect`
        self._writer.write(framed(run))
        if not self.alive:
            raise DiedError(await self._code())
        return await self._result

    def kill(self) -> None:
        """Kill the process, and what it has started."""
        self.alive = False
        self._tell(Kill(self.pid))

    @property
    def closed(self) -> bool:
        """Whether nothing more can come from it."""
        return self._reading is None or self._reading.done()

    @property
    def memory(self) -> int:
        """Its resident memory in bytes; 0 once it has ended."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE
        except (OSError, IndexError):
            return 0

    async def close(self) -> None:
        """Let an idle child end by itself."""
        self.alive = False
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=END_WITHIN)
            await cancel_tasks([self._reading])

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decode = msgspec.msgpack.Decoder(Told).decode
        try:
            while True:
                length = checked_length(await reader.readexactly(HEAD))
                self._take(decode(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, OSError):
            pass
        except Exception as error:  # noqa: BLE001 - the task may have written to the socket
            log.error(  # noqa: TRY400 - where it was read says nothing
                "child process %d sent what is no message (%s); killing it", self.pid, error
            )
            self.kill()
        self.alive = False
        if self._result is not None and not self._result.done():
            code = await self._code()
            if not self._result.done():
                self._result.set_exception(DiedError(code))
        if self._writer is not None:
            self._writer.close()

    def _take(self, told: Told) -> None:
        if isinstance(told, Logged):
            log_again(told.record)
        elif isinstance(told, Noted):
            with contextlib.suppress(LeaseLost):  # the recorder has the attempt stopped
                self._records_of().note(told.kind, told.value)
        elif isinstance(told, Spent):
            with contextlib.suppress(LeaseLost):
                self._records_of().spend(told.limit, told.cost)
        elif isinstance(told, Asked):
            answering = asyncio.ensure_future(self._answer(told))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
        elif self._result is not None and not self._result.done():
            self._result.set_result(told.result)

    async def _answer(self, asked: Asked) -> None:
        """Do what the attempt asks for, and tell it."""
        try:
            records, value = self._records_of(), None
            match asked.what:
                case "begin":
                    value = await records.begin(asked.name)
                case "write":
                    await records.write(asked.kind, asked.name, asked.value)
                case "checkpoint":
                    value = await records.last_checkpoint()
            answer = Answered(value)
        except LeaseLost as error:
            answer = Answered(lost=str(error))
        except Exception as error:  # noqa: BLE001 - whoever asks is told
            answer = Answered(refused=str(error))
        if self._writer is not None:
            self._writer.write(framed(answer))

    async def _code(self) -> int | None:
        await asyncio.wait([self.ended], timeout=END_WITHIN)
        return self.ended.result() if self.ended.done() else None


def checked_length(head: bytes) -> int:
    """The length of a message; refuses one that no message has."""
    length = int.from_bytes(head)
    if length > LONGEST:
        raise ValueError(f"a message of {length} bytes, more than the {LONGEST} allowed")
    return length


def no_attempt() -> TaskRecords:
    """The records of a child that runs no attempt."""
    raise LeaseLost("no attempt runs in this child process")


def log_again(fields: dict[str, Any]) -> None:
    """Log what a child has logged, by the logger of the same name."""
    record = logging.makeLogRecord(fields)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


async def kill_over(child: ChildProcess, limit: int) -> None:
    """Kill the child when it uses more memory than the limit."""
    while (used := child.memory) <= limit:  # noqa: ASYNC110 - the kernel has no event for it
        await asyncio.sleep(LOOK_EVERY)
    child.exceeded = used
    child.kill()


def memory_text(used: int, limit: int) -> str:
    """Why an attempt was killed for its memory."""
    return (
        f"the attempt used {used / MIB:.0f} MiB, more than its max_memory of {limit / MIB:.0f} MiB;"
        " let it use less, or raise max_memory"
    )
