"""Applications that moved here do what they did before: each runs on the real queue that it left.

The old queue is installed as for the benchmarks, with the same pins. Both halves use one Redis.
"""

import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks.environments import PEERS, install, with_npm, with_pip
from tests.databases._redis import RedisServer

EXAMPLES = Path(__file__).parents[2] / "examples/migrating"
MULLIGAN = Path(sys.executable).parent
WORKERS = {
    "celery": "celery -A tasks worker -Q celery,mail --pool solo --loglevel warning",
    "rq": "rq worker default mail --with-scheduler --url {url} --logging_level WARNING",
    "dramatiq": "dramatiq tasks --processes 1 --threads 4",
    "huey": "huey_consumer tasks.huey -w 4",
    "arq": "arq tasks.WorkerSettings",
    "bullmq": "node tasks.cjs",
}
TRANSCRIPT = """\
the basket costs 120
to ada: thank you
failed: no price for gold: busy
the mail to bob is called back
"""


@pytest.fixture(scope="module")
def server():
    with RedisServer(fsync="no") as started:
        yield started.url


@pytest.fixture
def redis(server, left) -> str:
    """A database for each: some queues take names that others have too."""
    return urlsplit(str(server))._replace(path=f"/{list(WORKERS).index(left)}").geturl()


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
    in_node = (folder / "run.cjs").exists()
    done = subprocess.run(
        ["node", "run.cjs"] if in_node else [programs / "python", "run.py"],
        cwd=folder,
        env=environment(programs, url),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment(programs: Path, url: str) -> dict[str, str]:
    path = f"{programs}:{os.environ['PATH']}"
    return {**os.environ, "SHOP_REDIS": url, "PATH": path, "NODE_PATH": str(programs)}


def installed(left: str) -> Path:
    """Where the programs of the old queue are, or for one in Node.js its modules."""
    if (PEERS / f"{left}.json").exists():
        return install(left, PEERS / f"{left}.json", with_npm) / "node_modules"
    return install(left, PEERS / f"{left}.txt", with_pip) / "bin"


@pytest.mark.parametrize("left", WORKERS)
def test_the_application_did_this_before(left, redis):
    programs = installed(left)
    folder = EXAMPLES / left / "before"
    with worker(WORKERS[left], folder, programs, redis):
        assert run(folder, programs, redis) == TRANSCRIPT


@pytest.mark.parametrize("left", WORKERS)
def test_the_application_does_the_same_after_the_move(left, redis):
    folder = EXAMPLES / left / "after"
    with worker("mulligan worker tasks:app", folder, MULLIGAN, redis):
        assert run(folder, MULLIGAN, redis) == TRANSCRIPT


@pytest.mark.parametrize("left", WORKERS)
def test_the_page_beside_it_says_what_both_print(left):
    page = (EXAMPLES / left / "README.md").read_text()
    assert textwrap.indent(TRANSCRIPT, "    ") in page
    assert WORKERS[left].partition(" --")[0].partition(" -w")[0] in page
