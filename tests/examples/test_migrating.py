"""Applications that moved here do what they did before: each runs on the real queue that it left.

The old queue is installed as for the benchmarks, with the same pins. Both halves use one Redis.
"""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.installing import PEERS, install, with_pip
from tests.databases._redis import RedisServer

EXAMPLES = Path(__file__).parents[2] / "examples/migrating"
MULLIGAN = Path(sys.executable).parent
WORKERS = {
    "celery": "celery -A tasks worker -Q celery,mail --pool solo --loglevel warning",
    "rq": "rq worker default mail --with-scheduler --url {url} --logging_level WARNING",
}
TRANSCRIPT = """\
the basket costs 120
to ada: thank you
failed: no price for gold: busy
the mail to bob is called back
"""


@pytest.fixture(scope="module")
def redis():
    with RedisServer(fsync="no") as server:
        yield server.url


@contextmanager
def worker(command: str, folder: Path, programs: Path, url: str):
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command.format(url=url)}"],
        cwd=folder,
        env=environment(programs, url),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def run(folder: Path, programs: Path, url: str) -> str:
    done = subprocess.run(
        [programs / "python", "run.py"],
        cwd=folder,
        env=environment(programs, url),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment(programs: Path, url: str) -> dict[str, str]:
    return {**os.environ, "SHOP_REDIS": url, "PATH": f"{programs}:{os.environ['PATH']}"}


@pytest.mark.parametrize("left", WORKERS)
def test_the_application_did_this_before(left, redis):
    programs = install(left, PEERS / f"{left}.txt", with_pip) / "bin"
    folder = EXAMPLES / left / "before"
    with worker(WORKERS[left], folder, programs, redis):
        assert run(folder, programs, redis) == TRANSCRIPT


@pytest.mark.parametrize("left", WORKERS)
def test_the_application_does_the_same_after_the_move(left, redis):
    folder = EXAMPLES / left / "after"
    with worker("mulligan worker tasks:app", folder, MULLIGAN, redis):
        assert run(folder, MULLIGAN, redis) == TRANSCRIPT
