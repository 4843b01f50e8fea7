"""The fork server: a process that has imported the app, and forks the children of one worker.

A fork of it starts within milliseconds, and is not a fork of the worker, whose threads and
connections would be lost in it. It ends when the worker does, and takes its children along.
"""

import contextlib
import ctypes
import gc
import os
import selectors
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import msgspec

from mulligan.core.settings import MOST_NICE
from mulligan.engine.child_messages import (
    Exited,
    Fork,
    Forked,
    Frames,
    Loaded,
    Request,
    Setup,
    framed,
    receive,
)

PR_SET_PDEATHSIG = 1
CHUNK = 1 << 16
MOST_SOCKETS = 64
# With autogroups, Linux divides the processors among sessions: the session's niceness counts.
AUTOGROUP = "/proc/self/autogroup"
# Serves one child on its end of a socket until the other is closed.
Serve = Callable[[socket.socket], None]


def run(control: socket.socket, load: Callable[[Setup], Serve]) -> None:
    """Load the app as the first message says, then fork and kill until the worker is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = os.getppid()
    die_with_parent(signal.SIGTERM)
    setup = receive(control, msgspec.msgpack.Decoder(Setup))
    if setup is None or os.getppid() != worker:
        return
    try:
        serve = load(setup)
    except BaseException as error:  # noqa: BLE001 - whatever a module raises
        control.sendall(framed(Loaded(why(error))))
        return
    control.sendall(framed(Loaded()))
    # What was imported is never collected: its memory stays shared with the children.
    gc.collect()
    gc.freeze()
    ForkServer(control, serve, setup.settings.pool_nice).run()


def why(error: BaseException) -> str:
    """What was raised, and at which line."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        where = f" (at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        where = f" (at {error.filename}:{error.lineno})"
    return f"{type(error).__name__}: {error}{where}"


def die_with_parent(number: signal.Signals) -> bool:
    """Have the kernel send this signal when the parent process ends; False if it cannot."""
    if sys.platform != "linux":
        return False
    try:
        return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0) == 0)
    except (OSError, AttributeError):  # a libc without it
        return False


class ForkServer:
    """Forks children, kills them when told, and says how each ended."""

    def __init__(self, control: socket.socket, serve: Serve, nice: int = 0) -> None:
        self._control = control
        self._serve = serve
        self._nice = nice
        self._children: set[int] = set()
        self._frames = Frames()
        self._sockets: deque[int] = deque()
        self._decode = msgspec.msgpack.Decoder(Request).decode
        self._told_to_end = False
        self._signalled, self._signals = socket.socketpair()

    def run(self) -> None:
        """Serve until the worker's end is closed; then kill all children."""
        for each in (self._signalled, self._signals):
            each.setblocking(False)  # noqa: FBT003 - the standard library's
        signal.set_wakeup_fd(self._signals.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end)
        ready = selectors.DefaultSelector()
        ready.register(self._control, selectors.EVENT_READ)
        ready.register(self._signalled, selectors.EVENT_READ)
        try:
            with ready:
                while not self._told_to_end:
                    for key, _ in ready.select():
                        if key.fileobj is self._signalled:
                            self._signalled.recv(CHUNK)
                        elif not self._read():
                            return
                    self._reap()
        finally:
            for pid in self._children:
                kill(pid)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._told_to_end = True

    def _read(self) -> bool:
        """Do what the worker asks for; False when it is gone."""
        data, sockets, _, _ = socket.recv_fds(self._control, CHUNK, MOST_SOCKETS)
        self._sockets.extend(sockets)
        if not data:
            return False
        for body in self._frames.add(data):
            request: Request = self._decode(body)
            if isinstance(request, Fork):
                self._tell(self._fork(self._sockets.popleft()))
            elif request.pid in self._children:
                kill(request.pid)
        return True

    def _fork(self, handle: int) -> Forked:
        me = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(handle)
            return Forked(error=str(error))
        if pid == 0:
            self._become_child(handle, me)
        os.close(handle)
        self._children.add(pid)
        return Forked(pid)

    def _become_child(self, handle: int, parent: int) -> NoReturn:
        """Serve the socket, and never return to the loop of the fork server."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            # In a group of its own: Ctrl-C reaches the worker alone, and what the task has started
            # can be killed together with it.
            session = session_niceness()
            os.setsid()
            be_nice(self._nice, session)
            dies = die_with_parent(signal.SIGKILL)
            for each in (self._control, self._signals, self._signalled):
                each.close()
            if not dies or os.getppid() == parent:
                self._serve(socket.socket(fileno=handle))
                code = 0
        except BaseException:  # noqa: BLE001 - nothing may return to the fork server
            sys.excepthook(*sys.exc_info())
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                self._end_sessions()
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._children:
                self._children.remove(pid)
                self._tell(Exited(pid, os.waitstatus_to_exitcode(status)))

    def _end_sessions(self) -> None:
        """Kill what children that have ended left behind, while their pids are not free."""
        if not hasattr(os, "waitid"):  # macOS
            return
        for pid in self._children:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, pid, options) is not None:
                kill(pid)

    def _tell(self, answer: Any) -> None:
        with contextlib.suppress(OSError):  # the next read says that the worker is gone
            self._control.sendall(framed(answer))


def session_niceness() -> int:
    """How nice this session is, where that is counted."""
    try:
        return int(Path(AUTOGROUP).read_text("ascii").split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def be_nice(by: int, session: int) -> None:
    """Leave the processor to the worker, which other jobs wait for, whenever it wants it."""
    if by:
        os.nice(by)
        with contextlib.suppress(OSError):  # only where it is counted, and not many times a second
            Path(AUTOGROUP).write_text(str(min(session + by, MOST_NICE)), "ascii")


def kill(pid: int) -> None:
    """Kill the child, and all that it has started and that has stayed in its session's group."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, signal.SIGKILL)
