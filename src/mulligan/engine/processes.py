"""Child processes for tasks with pool="process". One that must not go on is killed and replaced."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from mulligan.core.errors import InvalidError
from mulligan.core.outcome import Failed, Result
from mulligan.core.settings import Settings
from mulligan.engine.attempt_records import TaskRecords
from mulligan.engine.child_messages import (
    Answer,
    AppPath,
    Exited,
    Fork,
    Forked,
    Frames,
    Loaded,
    Run,
    Setup,
    framed,
)
from mulligan.engine.child_process import (
    END_WITHIN,
    ChildProcess,
    DiedError,
    kill_over,
    memory_text,
)
from mulligan.engine.loop_watch import Deadline, never_held
from mulligan.engine.result_gate import killed_late

log = logging.getLogger("mulligan.worker")
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from mulligan.app.child import main; main(int(sys.argv[2]))"
)
CHUNK = 1 << 16
# A fork server that died is started again after so long.
RESTART_AFTER = 1.0


def default_size() -> int:
    """How many child processes a worker has by default: one for each processor it may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_measure_memory() -> bool:
    """Whether the memory of a process can be read here."""
    return Path("/proc/self/statm").exists()


class ForkServerProcess:
    """The worker's end of its fork server."""

    def __init__(self, process: "subprocess.Popen[bytes]", control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._decode = msgspec.msgpack.Decoder(Answer).decode
        self._loaded: asyncio.Future[str] = self._loop.create_future()
        self._forking: deque[asyncio.Future[int]] = deque()
        self._children: dict[int, ChildProcess] = {}
        # The exit codes of children that ended before the worker was told that they were forked.
        self._exited: dict[int, int] = {}
        self.alive = True
        control.setblocking(False)  # noqa: FBT003 - the standard library's
        self._loop.add_reader(control.fileno(), self._read)

    @classmethod
    async def start(cls, setup: Setup) -> "ForkServerProcess":
        """Start one and wait until it has imported the app; refuses an app that it cannot."""
        control, theirs = socket.socketpair()
        with theirs:
            server = cls(start_fork_server(theirs), control)
        server.send(setup)
        try:
            error = await server._loaded
        except BaseException:
            await server.close()
            raise
        if error:
            await server.close()
            raise InvalidError(
                f'child processes, which tasks with pool="process" run in, cannot import the app'
                f" {setup.app}: {error}; it must be importable by its name"
            )
        return server

    def send(self, message: Any, sockets: tuple[int, ...] = ()) -> None:
        """Send a message; nothing happens if the fork server is gone."""
        # A message is far smaller than the socket's buffer.
        with contextlib.suppress(OSError):
            if sockets:
                socket.send_fds(self._control, [framed(message)], sockets)
            else:
                self._control.sendall(framed(message))

    async def fork(self) -> ChildProcess:
        """A new child; raises OSError if there can be none."""
        ours, theirs = socket.socketpair()
        forked: asyncio.Future[int] = self._loop.create_future()
        with theirs:
            self._forking.append(forked)
            self.send(Fork(), (theirs.fileno(),))
        if not self.alive:
            ours.close()
            raise ConnectionError("the fork server has ended")
        try:
            child = ChildProcess(await asyncio.shield(forked), self.send)
        except BaseException:
            ours.close()
            raise
        self._children[child.pid] = child
        if (code := self._exited.pop(child.pid, None)) is not None:
            self._over(child.pid, code)
        await child.connect(ours)
        return child

    async def close(self) -> None:
        """End it, and with it all children that still run."""
        self._gone()
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, END_WITHIN)
        if self._process.poll() is None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def _read(self) -> None:
        try:
            data = self._control.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._gone()
            return
        for body in self._frames.add(data):
            answer: Answer = self._decode(body)
            match answer:
                case Loaded(error):
                    self._loaded.set_result(error)
                case Forked(pid, error):
                    self._answer(self._forking.popleft(), pid, error)
                case Exited(pid, code):
                    self._over(pid, code)

    def _answer(self, forked: "asyncio.Future[int]", pid: int, error: str) -> None:
        if error:
            forked.set_exception(OSError(f"no child process can be started: {error}"))
        elif not forked.done():
            forked.set_result(pid)

    def _over(self, pid: int, code: int) -> None:
        child = self._children.pop(pid, None)
        if child is None:
            self._exited[pid] = code
        elif not child.ended.done():
            child.ended.set_result(code)

    def _gone(self) -> None:
        """It has ended, and its children with it."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._control.fileno())
        lost = ConnectionError("the fork server has ended")
        for forked in self._forking:
            if not forked.done():
                forked.set_exception(lost)
                forked.exception()  # perhaps nobody waits any more
        if not self._loaded.done():
            self._loaded.set_result("the process that imports it has ended")
        for child in self._children.values():
            child.alive = False
            if not child.ended.done():
                child.ended.set_result(None)


def start_fork_server(control: socket.socket) -> "subprocess.Popen[bytes]":
    """Start the process, with this end of a socket; Ctrl-C reaches the worker alone."""
    return subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", START, json.dumps(sys.path), str(control.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=[control.fileno()],
        start_new_session=True,
    )


class Processes:
    """The child processes of a worker, made when they are first needed.

    `held` says for how long the worker's loop was blocked: such time is no attempt's own.
    """

    def __init__(self, server: ForkServerProcess, setup: Setup) -> None:
        self._server = server
        self._setup = setup
        self._idle: list[ChildProcess] = []
        self._children: set[ChildProcess] = set()
        self._starting = asyncio.Lock()
        self.held = never_held

    @classmethod
    async def start(cls, app: AppPath, settings: Settings) -> "Processes":
        """Start the fork server; refuses an app that children cannot import."""
        setup = Setup(app, settings, logging.getLogger().getEffectiveLevel())
        return cls(await ForkServerProcess.start(setup), setup)

    async def child(self, max_memory: int | None = None) -> ChildProcess:
        """An idle child, or a new one; OSError if there can be none now.

        One that has kept half of the memory which the attempt may use is replaced first.
        """
        while self._idle:
            child = self._idle.pop()
            if not child.alive:
                continue
            if max_memory is None or child.memory <= max_memory // 2:
                return child
            child.kill()
        async with self._starting:
            if not self._server.alive:
                log.error("the fork server of the child processes has ended; starting another")
                await self._server.close()
                await asyncio.sleep(RESTART_AFTER)
                self._server = await ForkServerProcess.start(self._setup)
        child = await self._server.fork()
        self._children = {each for each in self._children if not each.closed} | {child}
        return child

    def done_with(self, child: ChildProcess) -> None:
        """Keep the child for another attempt, if it lives."""
        if child.alive:
            self._idle.append(child)

    async def result(
        self,
        child: ChildProcess,
        run: Run,
        timeout: float | None,  # noqa: ASYNC109 - it ends the child
        max_memory: int | None,
        records: Callable[[], TaskRecords],
    ) -> Result:
        """The result of an attempt. A child that must not go on is killed.

        That is when the timeout is over, when it uses more memory than it may, and when this is
        cancelled, as when the lease is lost.
        """
        deadline = Deadline(inf if timeout is None else timeout, self.held)
        watch = None
        if max_memory is not None:
            watch = asyncio.ensure_future(kill_over(child, max_memory))
        try:
            async with deadline:
                deadline.begin()
                return await child.run(run, records)
        except DiedError as error:
            if child.exceeded:
                return Failed("MemoryExceeded", memory_text(child.exceeded, max_memory or 0))
            return Failed("ProcessDied", f"the child process of the attempt died: {error}")
        except TimeoutError:
            child.kill()
            return killed_late(timeout)
        except asyncio.CancelledError:
            child.kill()
            raise
        finally:
            if watch is not None:
                watch.cancel()

    async def close(self) -> None:
        """Let idle children end by themselves, then end what is left."""
        await asyncio.gather(*(child.close() for child in self._idle))
        await self._server.close()
        await asyncio.gather(*(child.close() for child in self._children))
