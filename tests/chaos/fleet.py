"""Worker processes that are killed and paused at random, and always replaced."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from math import inf
from pathlib import Path
from typing import IO


class Fleet:
    """Keeps `size` workers alive; counts what it does to them and what they say."""

    def __init__(
        self, url: str, size: int, chance: random.Random, app: str = "tests.chaos.app:app"
    ) -> None:
        self._app = app
        self._env = {**os.environ, "MULLIGAN_CHAOS_URL": url}
        self._size = size
        self._chance = chance
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        self._workers: list[subprocess.Popen[bytes]] = []
        self._paused: dict[int, float] = {}
        self.kills = 0
        self.pauses = 0

    def fill(self) -> None:
        """Start as many workers as are missing."""
        self._workers = [worker for worker in self._workers if worker.poll() is None]
        while len(self._workers) < self._size:
            command = [sys.executable, "-m", "mulligan", "worker", self._app]
            self._workers.append(
                subprocess.Popen(
                    [*command, "--log-level", "warning"],
                    env=self._env,
                    stdout=self._log,
                    stderr=self._log,
                    cwd=Path(__file__).parents[2],
                )
            )

    def kill_one(self) -> None:
        """SIGKILL a random worker, but none that is paused: it is to come back and be refused."""
        worker = self._chance.choice(self._awake())
        worker.kill()
        worker.wait()
        self.kills += 1

    def pause_one(self, seconds: float) -> None:
        """SIGSTOP a random worker for longer than its lease; `wake` lets it go on."""
        awake = self._awake()
        if len(awake) > 1:
            worker = self._chance.choice(awake)
            worker.send_signal(signal.SIGSTOP)
            self._paused[worker.pid] = time.monotonic() + seconds
            self.pauses += 1

    def _awake(self) -> "list[subprocess.Popen[bytes]]":
        return [worker for worker in self._workers if worker.pid not in self._paused]

    def wake(self) -> None:
        """SIGCONT those whose pause is over."""
        for worker in self._workers:
            if self._paused.get(worker.pid, inf) < time.monotonic():
                del self._paused[worker.pid]
                worker.send_signal(signal.SIGCONT)

    def stop(self) -> str:
        """Drain all workers; everything that they logged."""
        for worker in self._workers:
            worker.send_signal(signal.SIGCONT)
            worker.terminate()
        for worker in self._workers:
            worker.wait(timeout=60)
        self._log.seek(0)
        log = self._log.read().decode("utf-8", "replace")
        self._log.close()
        return log
