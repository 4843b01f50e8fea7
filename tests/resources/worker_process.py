"""A worker as a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.resources.app import URL

PROJECT = Path(__file__).parents[2]
LONGEST_WAIT = 60.0
Process = subprocess.Popen[bytes]


@contextmanager
def worker(url: str) -> Iterator[Process]:
    """A worker on this store, ended in order or else killed."""
    command = [sys.executable, "-m", "mulligan", "worker", "tests.resources.app:app"]
    process = subprocess.Popen(
        [*command, "--log-level", "error"],
        env={**os.environ, URL: url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=PROJECT,
    )
    try:
        yield process
        process.terminate()
        process.wait(LONGEST_WAIT)
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], object]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < deadline, condition
        time.sleep(0.05)
