"""`--health-port`, and what systemd is told: a worker, and a group of them."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mulligan.cli import health, signs
from mulligan.cli.health import bind, probes
from mulligan.cli.signs import signs_of_life, watchdog_seconds
from mulligan.core.errors import MulliganError
from tests.cli.command_line import do, new_job, process, read_until, refused

APP = "tests.cli.apps:filed"
# How long a busy machine may take.
LONGEST_WAIT = 60.0


def address_in(lines: list[str]) -> str:
    found = re.search(r"health: (http://\S+)/healthz", lines[-1])
    assert found is not None, lines
    return found[1]


def until(address: str, path: str, status: int) -> dict[str, str]:
    """Ask until the status is so; what was answered then."""
    deadline = time.monotonic() + LONGEST_WAIT
    while True:
        answer = httpx.get(address + path)
        if answer.status_code == status:
            return dict(answer.json())
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.02)


def test_a_worker_is_ready_until_it_drains_and_well_as_long_as_it_runs(url, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    do(url, lambda store: store.enqueue([new_job("a", "default")]))  # of no task here
    with process("worker", APP, "--health-port", "0", TEST_STORE=url) as worker:
        address = address_in(read_until(worker, "health: "))
        assert until(address, "/readyz", 200) == {"status": "ready"}
        assert until(address, "/healthz", 200) == {"status": "ok"}
        enqueue = [sys.executable, "-m", "mulligan", "enqueue", APP, "hold", str(fifo)]
        subprocess.run(enqueue, check=True, env={**os.environ, "TEST_STORE": url})
        read_until(worker, "held by")
        worker.send_signal(signal.SIGTERM)
        drains = until(address, "/readyz", 503)
        assert drains == {"status": "not ready", "reason": "draining"}
        assert until(address, "/healthz", 200) == {"status": "ok", "not_ready": "draining"}
        fifo.write_text("done")
        read_until(worker, "stopped")
        assert worker.wait() == 0


def test_a_group_is_ready_when_each_of_its_workers_is(url):
    with process("worker", APP, "--processes", "2", "--health-port", "0", TEST_STORE=url) as group:
        address = address_in(read_until(group, "health: "))
        assert until(address, "/readyz", 200) == {"status": "ready"}
        assert until(address, "/healthz", 200) == {"status": "ok"}
        group.send_signal(signal.SIGTERM)
        assert group.wait() == 0


def test_a_port_that_is_taken_is_refused(url):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MulliganError, match=f"port {port}: .*choose another --health-host"):
            bind("127.0.0.1", port)
    assert "0<=x<=65535" in refused(2, "worker", APP, "--health-port", "70000")


async def test_whatever_comes_in_is_answered_or_closed_and_the_next_one_is_served():
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    sick = {"reason": ""}
    async with probes(listening, lambda: "no store", lambda: sick["reason"]):
        for sent, status in (
            (b"GET /readyz HTTP/1.1\r\n\r\n", b"503"),
            (b"GET /healthz?x=1 HTTP/1.1\r\nHost: anything\r\n\r\n", b"200"),
            (b"HEAD /healthz HTTP/1.0\r\n\r\n", b"200"),
            (b"POST /healthz HTTP/1.1\r\n\r\n", b"405"),
            (b"GET / HTTP/1.1\r\n\r\n", b"404"),
            (b"nonsense\r\n\r\n", b"400"),
            (b"x" * 100_000, b"400"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            line = await reader.readline()
            assert line.split()[1] == status, sent[:40]
            writer.close()
        sick["reason"] = "worker-1 hangs"
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{port}/healthz")
        assert answer.status_code == 503
        assert answer.json() == {"status": "not well", "reason": "worker-1 hangs"}


async def test_so_many_connections_are_open_and_the_next_one_replaces_the_oldest(monkeypatch):
    monkeypatch.setattr(health, "HEAD_WITHIN", 1000.0)
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    async with probes(listening, lambda: ""):
        most = range(health.MOST_CONNECTIONS + 1)
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in most]
        async with asyncio.timeout(LONGEST_WAIT):
            assert await idle[0][0].read() == b""
            idle[-1][1].write(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert (await idle[-1][0].readline()).split()[1] == b"200"
        for _, writer in idle:
            writer.close()
        await asyncio.gather(*(each.wait_closed() for _, each in idle), return_exceptions=True)


class Manager:
    """The end of systemd: what it was told so far."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(LONGEST_WAIT)
        self.environment = {"NOTIFY_SOCKET": str(path)}
        self.words: list[str] = []

    def until(self, *words: str) -> None:
        """Listen until it was told each, since the last call."""
        missing = set(words)
        while missing:
            said = self._socket.recv(4096).decode().split("\n")
            self.words += said
            missing -= set(said)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    yield made
    made.close()


def test_a_worker_tells_systemd_how_it_is_and_feeds_the_watchdog(url, manager):
    environment = {**manager.environment, "WATCHDOG_USEC": "300000", "TEST_STORE": url}
    with process("worker", APP, **environment) as worker:
        manager.until("READY=1", "STATUS=ready")
        for _ in range(3):
            manager.until("WATCHDOG=1")
        worker.send_signal(signal.SIGTERM)
        manager.until("STOPPING=1")
        worker.communicate()
        assert worker.returncode == 0
    assert manager.words.index("READY=1") >= 0


def test_the_server_and_a_group_feed_the_watchdog_too(url, manager):
    environment = {**manager.environment, "WATCHDOG_USEC": "6000000", "TEST_STORE": url}
    for command in (("serve", APP, "--port", "0"), ("worker", APP, "--processes", "2")):
        with process(*command, **environment) as started:
            manager.until("READY=1")
            manager.until("WATCHDOG=1")
            manager.until("WATCHDOG=1")
            started.send_signal(signal.SIGTERM)
            started.communicate()
            assert started.returncode == 0, command


def test_a_worker_of_a_group_that_hangs_is_killed_and_started_again(url, manager):
    environment = {**manager.environment, "WATCHDOG_USEC": "3000000", "TEST_STORE": url}
    with process("worker", APP, "--processes", "2", **environment) as group:
        lines = read_until(group, "ready for jobs")
        started = next(line for line in lines if " starts: " in line)
        name = started.split()[0]
        found = re.search(r"worker \S+-(\d+)-\w+ starts", started)
        assert found is not None
        manager.until("READY=1")
        os.kill(int(found[1]), signal.SIGSTOP)
        read_until(group, f"{name} hangs; killing it")
        read_until(group, f"{name} ended")
        read_until(group, f"name {name}")
        read_until(group, "ready for jobs")
        group.send_signal(signal.SIGTERM)
        group.communicate()


async def test_a_loop_that_is_held_feeds_no_watchdog(manager, monkeypatch):
    for name, value in {**manager.environment, "WATCHDOG_USEC": "60000"}.items():
        monkeypatch.setenv(name, value)
    async with signs_of_life():
        await asyncio.to_thread(manager.until, "WATCHDOG=1")
        before = len(heard(manager))
        hold(0.5)
        assert len(heard(manager)) <= before + 1
    monkeypatch.setenv("NOTIFY_SOCKET", "")
    async with signs_of_life():
        pass


def hold(seconds: float) -> None:
    """Hold the loop, as a task that does not await."""
    time.sleep(seconds)


def heard(manager: Manager) -> list[str]:
    """All words that have come so far."""
    manager._socket.settimeout(0.01)
    try:
        while True:
            manager.words += manager._socket.recv(4096).decode().split("\n")
    except TimeoutError:
        return manager.words


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        ("30000000", None, 30.0),
        ("30000000", "", None),
        ("30000000", "1", None),
        ("", None, None),
        ("0", None, None),
        ("often", None, None),
    ],
)
def test_the_watchdog_is_fed_only_where_systemd_asks_this_process(monkeypatch, usec, pid, seconds):
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    if pid is not None:
        monkeypatch.setenv("WATCHDOG_PID", pid)
    assert watchdog_seconds() == seconds
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert signs.watchdog_seconds() == (30.0 if usec == "30000000" else None)


PROCFILE = Path(__file__).parents[2] / "deploy/Procfile"


def test_the_line_of_the_procfile_runs_an_app_as_a_stranger_has_it(tmp_path):
    """Knows only docs/howto/deployment.md: the line, the variables of options, and the probes."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/jobs.py").write_text(SHOP)
    [line] = [each for each in PROCFILE.read_text().splitlines() if each.startswith("worker: ")]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path),
        "WORKER_PROCESSES": "2",
        "MULLIGAN_HEALTH_PORT": "0",
    }
    with subprocess.Popen(
        ["sh", "-c", f"exec {line.removeprefix('worker: ')}"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as dyno:
        address = address_in(read_until(dyno, "health: "))
        assert until(address, "/readyz", 200) == {"status": "ready"}
        ask = "from shop.jobs import ask; print(ask.enqueue('why').result(timeout=60))"
        asked = subprocess.run(
            [sys.executable, "-c", ask],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert asked.stdout == "WHY\n"
        dyno.send_signal(signal.SIGTERM)
        dyno.communicate()
        assert dyno.returncode == 0


SHOP = """
from mulligan import Mulligan

app = Mulligan("sqlite:///jobs.db")


@app.task
def ask(question: str) -> str:
    return question.upper()
"""
