"""A process of a kind: the command that starts it, and a handle to watch and signal it by.

The handle is the kernel's, never a pid.
"""

import contextlib
import hashlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import msgspec

from mulligan.supervisor.fleet import Kind
from mulligan.supervisor.liveness import has_open

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """A child process, or a process that an earlier supervisor started.

    The handle (a pidfd) stands for this one process, even when the kernel gives its pid to another
    after its end.
    """

    def __init__(self, pid: int, child: "subprocess.Popen[bytes] | None" = None) -> None:
        self.pid = pid
        self.handle = os.pidfd_open(pid)
        self.adopted = child is None
        self._child = child

    @property
    def ended(self) -> bool:
        """Whether it has ended; a child that has is reaped."""
        if self._child is not None:
            return self._child.poll() is not None
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(0))

    @property
    def code(self) -> int | None:
        """Its exit code, or minus the number of the signal that ended it; None if unknown."""
        return self._child.returncode if self._child is not None else None

    @property
    def memory(self) -> int:
        """Its resident memory in bytes; 0 once it has ended."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE
        except (OSError, IndexError):
            return 0

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, number)

    def close(self) -> None:
        """Let go of the handle."""
        os.close(self.handle)


class Command(msgspec.Struct, frozen=True):
    """A command line, and the variables that it gets besides those of the supervisor."""

    words: tuple[str, ...]
    env: dict[str, str]

    @property
    def digest(self) -> str:
        """A short text that differs where the command does: then its process is outdated."""
        ordered = msgspec.json.encode([self.words, sorted(self.env.items())])
        return hashlib.sha256(ordered).hexdigest()[:16]


def command_for(
    kind: Kind, number: int, supervisor: Path, orphan_grace: float, *, kept: bool
) -> Command:
    """The command of the process in this slot; `supervisor` is the supervisor's own lock file.

    A process that is `kept` stays when idle; others end by themselves.
    """
    name = f"{kind.name}-{number}"
    if kind.command:
        return Command(kind.command, {**kind.env, "MULLIGAN_SLOT": name})
    words = ["housekeep" if kind.service else "worker", *([kind.app] if kind.app else [])]
    if not kind.service:
        words += ["--region", kind.region]
        words += ["--queues", ",".join(kind.queues)] if kind.queues else []
        words += ["--concurrency", str(kind.concurrency)] if kind.concurrency else []
        words += ["--only", kind.only] if kind.only else []
        words += ["--idle-exit", f"{kind.idle_exit:g}"] if not kept else []
    words += ["--name", name, "--drain-timeout", f"{kind.drain_timeout:g}"]
    words += ["--supervisor", str(supervisor), "--orphan-grace", f"{orphan_grace:g}"]
    env = {**kind.env, "MULLIGAN_SLOT": name}
    if not kind.app:
        env["MULLIGAN_STORE"] = kind.store  # not an argument: it may hold a password
    return Command((sys.executable, "-m", "mulligan", *words), env)


def start(command: Command, lock: int, log: IO[bytes]) -> Process:
    """Start a process that holds the lock; its output goes to the log.

    It has its own session, so that Ctrl-C reaches the supervisor alone, which then drains it.
    """
    # The service manager expects reports from the supervisor, not from its processes.
    ours = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    child = subprocess.Popen(  # noqa: S603 - what the fleet file says
        command.words,
        env={**ours, **command.env},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(lock,),
        start_new_session=True,
    )
    return Process(child.pid, child)


def adopt(pid: int, lock: Path) -> Process | None:
    """A handle on the process, if it still holds the lock then."""
    try:
        process = Process(pid)
    except ProcessLookupError:
        return None
    if has_open(pid, lock.stat()):
        return process
    process.close()
    return None


def is_leader(pid: int) -> bool:
    """Whether a supervisor started it, rather than one of the supervisor's processes."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def age_of(pid: int) -> float:
    """Seconds since the process started; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / TICKS)


def in_words(code: int | None) -> str:
    """How a process ended, as people say it."""
    if code is None:
        return "exit code unknown (adopted)"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
