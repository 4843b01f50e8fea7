"""The Dockerfile makes a small image whose worker drains, reaps, and is not root."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import do, read_until
from tests.cli.test_health import address_in, until
from tests.databases._debian import root_on_debian

pytestmark = [
    pytest.mark.prove,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not root_on_debian(), reason="a Debian of its own needs root on Debian"),
]
ROOT = Path(__file__).parents[2]
USER = 10001
APP = """
import os
import subprocess
import time

from mulligan import Mulligan

app = Mulligan(os.environ.get("SHOP_STORE", "sqlite:////data/jobs.db"))


@app.task
def leave_an_orphan() -> None:
    subprocess.run(["sh", "-c", "sleep 0.2 & exit 0"], check=True)


@app.task
def slow() -> str:
    time.sleep(3)
    return "done"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What is built: the Dockerfile that is shipped, and a little app."""
    made: Path = tmp_path_factory.mktemp("image")
    (made / "context/shop").mkdir(parents=True)
    (made / "data").mkdir()
    os.chown(made / "data", USER, USER)
    shutil.copy(ROOT / "deploy/docker/Dockerfile", made / "context")
    (made / "context/requirements.txt").write_text("mulligan\n")
    (made / "context/shop/__init__.py").touch()
    (made / "context/shop/jobs.py").write_text(APP)
    wheel = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(made / "wheels")]
    subprocess.run([sys.executable, "-m", "pip", *wheel, str(ROOT)], check=True)
    return made


def container(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    binds = [f"--bind={folder / name}:/{name}" for name in ("wheels", "data")]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.container", *binds, *arguments],
        cwd=ROOT,
        env={**os.environ, "PIP_FIND_LINKS": "/wheels"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def worker(folder) -> Iterator["subprocess.Popen[str]"]:
    context = str(folder / "context")
    with container(folder, context, "worker", "shop.jobs:app", "--health-port", "0") as started:
        yield started
        if started.poll() is None:
            started.terminate()  # a failure: process 1 goes first, then the layers


def children(pid: int) -> dict[int, str]:
    """The children of process 1 and the state of each; Z is one that was not reaped."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    states = {}
    for each in found:
        stat = Path(f"/proc/{each}/stat").read_text()
        states[int(each)] = stat.rpartition(")")[2].split()[0]
    return states


def eventually(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_worker_in_a_container_reaps_drains_and_is_not_root(folder, worker):
    lines = read_until(worker, "pid ")
    [pid] = [int(line.split()[1]) for line in lines if line.startswith("pid ")]
    [size] = [re.search(r"image: ([\d.]+) MB", line) for line in lines if "image:" in line]
    assert size is not None
    assert float(size[1]) < 80, "a small image"
    address = address_in(read_until(worker, "health: "))
    assert until(address, "/readyz", 200) == {"status": "ready"}
    status = Path(f"/proc/{pid}/status").read_text()
    assert re.search(r"NSpid:\s+\d+\s+1\n", status), "it is process 1"
    assert re.search(rf"Uid:\s+{USER}\s+{USER}", status)
    assert Path(f"/proc/{pid}/comm").read_text() == "tini\n"

    url = f"sqlite:///{folder}/data/jobs.db"
    orphans = [enqueue(folder, url, "leave_an_orphan") for _ in range(3)]
    eventually(lambda: all(status_of(url, each) == "done" for each in orphans))
    eventually(lambda: len(children(pid)) == 1)  # the worker alone: the orphans were reaped
    assert "Z" not in children(pid).values()

    held = enqueue(folder, url, "slow")
    eventually(lambda: status_of(url, held) == "processing")
    os.kill(pid, signal.SIGTERM)
    assert worker.wait() == 0
    assert "draining: 1 attempts still run" in (worker.stdout.read() if worker.stdout else "")
    assert status_of(url, held) == "done"


def test_nothing_of_the_code_can_be_changed(folder):
    each = "touch $f/x 2>/dev/null && echo wrote $f"
    tried = f"for f in /srv/app /opt/app/bin /etc; do {each}; done; id -u"
    with container(folder, "--entrypoint", "sh", str(folder / "context"), "-c", tried) as ran:
        said, _ = ran.communicate()
    assert ran.returncode == 0, said
    assert "wrote" not in said
    assert said.splitlines()[-1] == str(USER)


def enqueue(folder: Path, url: str, task: str) -> str:
    command = [sys.executable, "-m", "mulligan", "enqueue", "shop.jobs:app", task]
    environment = {**os.environ, "SHOP_STORE": url, "PYTHONPATH": str(folder / "context")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout.strip()


def status_of(url: str, job: str) -> str:
    return str(do(url, lambda store: store.get(job)).status)
