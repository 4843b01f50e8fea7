from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOOPBACK = "127.0.0.1"
READY_WITHIN = 60.0
STOPPED_WITHIN = 15.0
# below the range that outgoing connections take theirs from, so that a port stays free
# while its server is down
PORTS = range(20_000, 32_000)
# letters for the states of a process: see `state`
GONE = ("", "Z", "X")
STANDING = ("T", *GONE)


class Unavailable(Exception):  # noqa: N818  # a state of affairs, with what to do about it
    """This server cannot be had on this machine; the message says why and what to install."""


class Server(ABC):
    """One server process on a port and in a folder of its own.

    Port and data stay the same through `kill` and `start`; `stop` ends the process and removes the
    data. Used as a context manager it is started on entry and stopped on exit. If this process dies
    without stopping it, the server dies too.
    """

    name: str
    stop_signal = signal.SIGTERM

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"mulligan-{self.name}-"))
        self.log = self.folder / "log"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._prepared = False

    @property
    def pids(self) -> list[int]:
        """The processes that were started for it; those may have others in turn."""
        return [process.pid for process in self._processes]

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients connect to."""

    @abstractmethod
    def prepare(self) -> None:
        """Install what is missing and make the data folder. Raises Unavailable."""

    @abstractmethod
    def launch(self) -> None:
        """Start the processes, each by `spawn`; `answers` tells when they are ready."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether a client would be served now. Never raises, never waits long."""

    @property
    def running(self) -> bool:
        """Whether every process of the server is alive."""
        return bool(self._processes) and all(p.poll() is None for p in self._processes)

    def start(self) -> None:
        """Return when the server answers. Raises Unavailable with the end of its log."""
        if self.running:
            return
        try:
            if not self._prepared:
                self.prepare()
                self._prepared = True
            self.launch()
            self.wait_until(self.answers)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End every process at once, children included, as if the power went; data stays."""
        roots = [process.pid for process in self._processes if process.poll() is None]
        for pid in roots:
            send(pid, signal.SIGSTOP)  # or it has another child while we look
        until(lambda: all(state(pid) in STANDING for pid in roots), STOPPED_WITHIN)
        # parents first: they must not see their children die and tidy up
        victims = [pid for root in roots for pid in family(root)]
        for pid in victims:
            send(pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._processes.clear()
        until(lambda: not any(alive(pid) for pid in victims), STOPPED_WITHIN)

    def restart(self) -> None:
        """Kill and start again, on the same port and data."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End the server and remove its data."""
        for process in reversed(self._processes):
            process.send_signal(self.stop_signal)
        until(lambda: all(p.poll() is not None for p in self._processes), STOPPED_WITHIN)
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._prepared = False

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def spawn(self, command: Sequence[str | Path]) -> None:
        """Start one process of the server, its output going to the log."""
        with self.log.open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # a Ctrl-C is for the tests
                )
            )

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Return when ready; raise Unavailable if a process ends first or it takes too long."""
        until(lambda: not self.running or ready(), READY_WITHIN)
        if not self.running or not ready():
            raise Unavailable(f"{self.name} did not start: {self.log_end()}")

    def log_end(self) -> str:
        """The last lines of the log, in one line."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " / ".join(line.strip() for line in lines[-5:]) or "it said nothing"


def leash(*, user: str | None = None) -> list[str]:
    """A command prefix that ties a process's life to ours, and may give up root for a user.

    The kernel counts the thread that started a process as its parent, and only the main thread is
    sure to live to the end: a server started from another is not tied.
    """
    options = ["--reuid", user, "--regid", user, "--init-groups"] if user else []
    if threading.current_thread() is threading.main_thread() and shutil.which("setpriv"):
        options += ["--pdeathsig", "KILL"]
    return ["setpriv", *options] if options else []


def free_port() -> int:
    """A port of the loopback address that nothing listens on."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise Unavailable(f"every port from {PORTS.start} to {PORTS.stop} is taken")


def accepts(port: int) -> bool:
    """Whether something listens on a port of the loopback address."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll a condition until it holds; False if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def family(pid: int) -> list[int]:
    """A process and its descendants, parents first; the process alone where there is no /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # "pid (name) state parent ...", and the name may hold anything
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended while we looked
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for member in found:
        found.extend(children.get(member, ()))
    return found


def alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended but was not waited for does not."""
    return state(pid) not in GONE


def state(pid: int) -> str:
    """The letter that the kernel has for what a process is doing; none where it cannot be told."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended already."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
