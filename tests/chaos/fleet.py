"""The processes of a run: killed and paused at random, and always replaced."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import IO

from mulligan.supervisor.liveness import holders, is_held

PROJECT = Path(__file__).parents[2]
LONGEST_WAIT = 60.0


def no_more_env() -> dict[str, str]:
    """Every worker is like the others."""
    return {}


class Fleet:
    """Keeps so many processes of each role alive; counts what it does to them.

    `commands` says how a role is started, `sizes` how many of it there are. `worker_env`, which
    may be replaced, gives what is special about the next worker. `unwilling` are the roles of those
    that had to be killed because they did not end when they were told to.
    """

    def __init__(
        self,
        commands: Mapping[str, list[str]],
        sizes: Mapping[str, int],
        env: Mapping[str, str],
        chance: random.Random,
        worker_env: Callable[[], dict[str, str]] = no_more_env,
    ) -> None:
        self._commands = commands
        self._sizes = dict(sizes)
        self._env = {**os.environ, **env}
        self.worker_env = worker_env
        self._chance = chance
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {role: [] for role in sizes}
        self._paused: dict[int, float] = {}
        self.unwilling: list[str] = []

    def fill(self) -> None:
        """Start as many processes as are missing."""
        for role, size in self._sizes.items():
            alive = [each for each in self._processes[role] if each.poll() is None]
            while len(alive) < size:
                alive.append(self._start(role))
            self._processes[role] = alive

    def kill(self, role: str) -> int | None:
        """SIGKILL one of the role, but none that is paused: it is to come back and be refused."""
        awake = self._awake(role)
        if not awake:
            return None
        process = self._chance.choice(awake)
        process.kill()
        process.wait()
        return process.pid

    def pause(self, role: str, seconds: float, among: Sequence[int]) -> int | None:
        """SIGSTOP the first of these for so long, unless it is the last of its role.

        `wake` lets it go on.
        """
        awake = self._awake(role)
        chosen = [each for pid in among for each in awake if each.pid == pid]
        if len(awake) < 2 or not chosen:
            return None
        process = chosen[0]
        process.send_signal(signal.SIGSTOP)
        self._paused[process.pid] = time.monotonic() + seconds
        return process.pid

    def wake(self, *, every: bool = False) -> None:
        """SIGCONT those whose pause is over, or every one."""
        now = inf if every else time.monotonic()
        for process in self._all():
            if self._paused.get(process.pid, inf) < now:
                del self._paused[process.pid]
                process.send_signal(signal.SIGCONT)

    def hire(self, role: str) -> None:
        """Have one of this role again."""
        self._sizes[role] = 1
        self._processes[role] = []
        self.fill()

    def retire(self, role: str) -> None:
        """Have no more of this role: let those there are end in order, or kill them."""
        self._sizes[role] = 0
        self._end(role, self._processes.pop(role, []))
        self._sizes.pop(role)

    def run(self, role: str, *options: str) -> None:
        """Start one more of this role, with these options, and wait until it has ended."""
        process = self._start(role, *options)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=LONGEST_WAIT)
        self._end(role, [process])

    def stop(self) -> str:
        """Let all end in order, or kill them; everything that they logged."""
        for role in list(self._sizes):
            self.retire(role)
        self._log.seek(0)
        log = self._log.read().decode("utf-8", "replace")
        self._log.close()
        return log

    def _end(self, role: str, processes: "list[subprocess.Popen[bytes]]") -> None:
        for process in processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in processes:
            try:
                process.wait(timeout=LONGEST_WAIT)
            except subprocess.TimeoutExpired:
                # Raised from here, it would hide why the run is over.
                self.unwilling.append(role)
                line = (
                    f"{role} {process.pid} did not end within {LONGEST_WAIT:g} s and was killed\n"
                )
                os.write(self._log.fileno(), line.encode())
                process.kill()
                process.wait()

    def _start(self, role: str, *options: str) -> "subprocess.Popen[bytes]":
        more = self.worker_env() if role == "worker" else {}
        return subprocess.Popen(
            [sys.executable, "-m", *self._commands[role], *options],
            env=self._env | more,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd=PROJECT,
        )

    def _awake(self, role: str) -> "list[subprocess.Popen[bytes]]":
        return [
            each
            for each in self._processes.get(role, ())
            if each.pid not in self._paused and each.poll() is None
        ]

    def _all(self) -> "list[subprocess.Popen[bytes]]":
        return [each for processes in self._processes.values() for each in processes]


def worker_command(app: str) -> list[str]:
    """How a worker of an app is started."""
    return ["mulligan", "worker", app, "--log-level", "warning"]


def supervised(state: Path) -> list[int]:
    """The processes that a supervisor has started, by the locks that they hold."""
    return [pid for path in state.glob("*-*.lock") if is_held(path) for pid in holders(path)]
