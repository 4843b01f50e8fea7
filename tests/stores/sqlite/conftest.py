"""The file, its URL, a store and a connection of another program, for tests of SQLite alone."""

import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.store_kit import handle


@pytest.fixture
def path():
    # Short enough that a socket fits beside it, however long the names of tests are.
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        yield Path(folder) / "jobs.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


@pytest.fixture
async def store(url, clock):
    async with handle(url, clock) as opened:
        yield opened


@pytest.fixture
def db(store, path):
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


@pytest.fixture
def run():
    started = []

    def start_process(script, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        started.append(process)
        return process

    yield start_process
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()
