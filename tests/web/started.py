"""The example applications, started as their users start them, and a worker beside each."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

EXAMPLES = Path(__file__).parents[2] / "examples"
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
# How long a busy machine may take to start, answer or stop.
LONGEST_WAIT = 60
COMMANDS = {
    "fastapi": ("uvicorn", "main:api", "--port", "0"),
    "starlette": ("uvicorn", "main:web", "--port", "0"),
    "flask": ("flask", "--app", "main", "run", "--port", "0"),
    "gunicorn": ("gunicorn", "main:web", "--bind", "127.0.0.1:0", "--workers", "2"),
}
WORKER = ("mulligan", "worker", "jobs:app")


class Started:
    """A process, and what it has said so far."""

    def __init__(self, command: Sequence[str], folder: Path, **environment: str) -> None:
        program = Path(sys.executable).with_name(command[0])
        given = {**os.environ, "PYTHONUNBUFFERED": "1", "SECRET_KEY": "of a test", **environment}
        given.pop("COVERAGE_PROCESS_CONFIG", None)
        self.command = command
        self.said = ""
        self._reading: Thread | None = None
        self.process = subprocess.Popen(
            [program, *command[1:]],
            cwd=folder,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def says(self, pattern: "re.Pattern[str]") -> str:
        """What it says, as soon as it does; pytest's timeout is the limit."""
        assert self.process.stdout is not None
        while (found := pattern.search(self.said)) is None:
            line = self.process.stdout.readline()
            assert line, f"{' '.join(self.command)} ended:\n{self.said}"
            self.said += line
        # Somebody must go on reading, or it stands still when the pipe is full.
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()
        return found[0]

    def stop(self) -> int:
        """Stop it as its users do; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LONGEST_WAIT)

    def end(self) -> None:
        """Stop it if it still runs, and read what it has said last."""
        if self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self._reading is not None:
            self._reading.join(LONGEST_WAIT)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line


@contextmanager
def started(command: Sequence[str], folder: Path, **environment: str) -> Iterator[Started]:
    """A process that is stopped in the end."""
    it = Started(command, folder, **environment)
    try:
        yield it
    finally:
        it.end()


@contextmanager
def example(name: str, store: str, *options: str) -> Iterator[tuple[str, Started]]:
    """An example with its worker: its address and its web server."""
    folder = EXAMPLES / ("flask" if name == "gunicorn" else name)
    with (
        started(WORKER, folder, MULLIGAN_STORE=store) as worker,
        started((*COMMANDS[name], *options), folder, MULLIGAN_STORE=store) as web,
    ):
        worker.says(re.compile("ready"))
        yield web.says(ADDRESS), web


@contextmanager
def proxy(upstream: str, prefix: str) -> Iterator[str]:
    """A proxy before the upstream; the address of its prefix."""
    command = ("python", "-m", "tests.web.proxy", upstream, prefix)
    with started(command, EXAMPLES.parent) as it:
        yield it.says(ADDRESS) + prefix
