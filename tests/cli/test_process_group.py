"""`worker --processes`, `--reload` and `dev`: several processes under one command."""

import asyncio
import contextlib
import os
import re
import select
import signal
import socket
import urllib.request
from pathlib import Path

import click
import pytest

from mulligan.cli import dev, process_group
from mulligan.cli.process_group import Member, ProcessGroup, given_arguments, run_group
from mulligan.cli.readiness import Readiness
from mulligan.cli.worker import worker as worker_command
from mulligan.supervisor.liveness import notify
from tests.cli.command_line import process, read_until, refused

APP = "tests.cli.apps:filed"
READY = "ready for jobs"


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until_gone(*pids: int) -> None:
    """Wait for processes that are not ours to end, by their handles."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            select.select([handle], [], [], 60)
        finally:
            os.close(handle)
        assert not is_running(pid)


def pid_in(line: str) -> int:
    """The pid in the id of a worker that says that it starts."""
    found = re.search(r"worker \S+-(\d+)-\w+ starts", line)
    assert found is not None, line
    return int(found[1])


def read_ready(started, count: int) -> list[str]:
    lines: list[str] = []
    for _ in range(count):
        lines += read_until(started, READY)
    return lines


def starts(lines: list[str]) -> dict[str, int]:
    """The pids of the workers that have started, by their prefixes."""
    return {
        line.split("|")[0].strip(): pid_in(line)
        for line in lines
        if re.search(r"worker \S+ starts", line)
    }


@pytest.mark.prove
def test_several_workers_run_under_one_command_and_drain_with_it(url):
    with process("worker", APP, "--processes", "2", "-c", "3", TEST_STORE=url) as started:
        lines = read_ready(started, 2)
        assert set(starts(lines)) == {"worker-1", "worker-2"}
        assert any("concurrency 3" in line for line in lines)
        started.send_signal(signal.SIGTERM)
        out, _ = started.communicate()
        assert started.returncode == 0
        assert out.count("stopped") == 2


@pytest.fixture
def manager(tmp_path):
    """Stands for systemd."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


@pytest.mark.prove
def test_the_service_manager_hears_that_all_workers_are_ready(url, tmp_path, manager):
    where = {"TEST_STORE": url, "NOTIFY_SOCKET": str(tmp_path / "notify")}
    with process("worker", APP, "--processes", "2", **where) as started:
        while (said := manager.recv(100)) != b"READY=1":
            assert said.startswith(b"STATUS=not ready: ")
        assert len(starts(read_ready(started, 2))) == 2
        started.send_signal(signal.SIGTERM)
        started.communicate()
        assert started.returncode == 0
    assert b"READY=1" not in left_in(manager), "it was told once"


def left_in(manager) -> list[bytes]:
    """What was sent and not yet read."""
    manager.settimeout(0)
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(manager.recv(100))
    return found


def access_to(folder: Path) -> int | None:
    """Who may look into the folder; None if there is no such folder."""
    return folder.stat().st_mode & 0o777 if folder.exists() else None


async def test_a_group_is_ready_when_the_last_of_its_workers_is(tmp_path, manager, monkeypatch):
    asked = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", asked)
    readiness = Readiness(["one", "two"])
    readiness.open()
    folder = Path(readiness.starts("one")["NOTIFY_SOCKET"]).parent
    assert access_to(folder) == 0o700
    manager.settimeout(0)

    async def tell(name: str, word: str) -> None:
        with monkeypatch.context() as theirs:
            theirs.setenv("NOTIFY_SOCKET", readiness.starts(name)["NOTIFY_SOCKET"])
            notify(word)
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # a look at the sockets, and what it calls

    for name, word in (("one", "READY=1"), ("one", "READY=1"), ("two", "STATUS=well")):
        await tell(name, word)
        with pytest.raises(BlockingIOError):
            manager.recv(100)
    await tell("two", "READY=1")
    assert manager.recv(100) == b"READY=1"
    readiness.close()
    assert readiness.starts("one") == {}
    assert access_to(folder) is None


async def test_where_nobody_asks_nothing_is_opened(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    readiness = Readiness(["one"])
    readiness.open()
    assert readiness.starts("one") == {}
    readiness.close()


@pytest.mark.prove
def test_one_that_dies_is_started_again_and_the_others_go_on(url):
    with process("worker", APP, "--processes", "2", TEST_STORE=url) as started:
        pids = starts(read_ready(started, 2))
        os.kill(pids["worker-2"], signal.SIGKILL)
        said = read_until(started, "worker-2 ended (killed by SIGKILL); starting it again in 1 s")
        assert "mulligan" in said[-1]
        again = starts(read_ready(started, 1))
        assert set(again) == {"worker-2"}
        assert is_running(pids["worker-1"])
        started.send_signal(signal.SIGINT)
        out, _ = started.communicate()
        assert (started.returncode, out.count("stopped")) == (0, 2)


@pytest.mark.prove
def test_workers_end_with_the_command_that_was_killed(url):
    with process("worker", APP, "--processes", "2", TEST_STORE=url) as started:
        pids = starts(read_ready(started, 2))
        started.kill()
        wait_until_gone(*pids.values())


@pytest.mark.prove
def test_a_wrong_option_ends_all_at_once(url):
    with process("worker", APP, "--processes", "2", "--queues", "", TEST_STORE=url) as started:
        out, _ = started.communicate()
    assert started.returncode == 2
    assert "error: queue '' has 0 characters" in out
    assert re.search(r"error: worker-\d cannot start; see above", out)


APPLICATION = """
import os
from mulligan import Mulligan
app = Mulligan(os.environ["TEST_STORE"])

@app.task
async def greet() -> None:
    print("hello", flush=True)
"""


@pytest.mark.prove
def test_dev_restarts_when_the_code_changes_and_serves_the_dashboard(tmp_path, monkeypatch):
    folder = tmp_path / "code"
    folder.mkdir()
    file = folder / "shop.py"
    file.write_text(APPLICATION)
    monkeypatch.chdir(folder)
    url = f"sqlite:///{tmp_path}/jobs.db"
    with process("dev", "shop:app", "--port", "0", TEST_STORE=url) as started:
        [address] = [
            line.split()[1]
            for line in read_until(started, "open  ")
            if line.strip().startswith("open")
        ]
        read_until(started, READY)
        read_until(started, "ready for requests")
        with urllib.request.urlopen(address) as answer:  # noqa: S310 - ours
            assert b"mulligan" in answer.read()
        file.write_text("this is no Python")
        read_until(started, "shop.py changed; restarting")
        read_until(started, "starting it again when the code changes")
        file.write_text(APPLICATION.replace("hello", "good morning"))
        read_until(started, READY)
        with process("enqueue", "shop:app", "greet", TEST_STORE=url) as sender:
            assert sender.wait() == 0
        read_until(started, "worker   | good morning")
        started.send_signal(signal.SIGINT)
        started.communicate()
        assert started.returncode == 0


def test_what_cannot_be_shared_is_refused():
    said = refused(2, "worker", "tests.cli.apps:app", "--processes", "2")
    assert "is on memory://, which 2 processes would not share; use sqlite:///FILE" in said
    said = refused(2, "dev", "tests.cli.apps:app", "--no-reload")
    assert "is on memory://, which its worker and its server, two processes, would" in said


def test_reload_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(process_group, "find_spec", lambda _name: None)
    said = refused(2, "worker", APP, "--reload")
    assert "--reload needs 'watchfiles', which is not installed; run: pip install" in said


@pytest.mark.parametrize(
    ("there", "options", "words"),
    [
        (
            (),
            (),
            (
                "dev needs 'uvicorn' and 'watchfiles', which are not installed; run: pip install"
                " 'mulligan[server,reload]'"
            ),
        ),
        (
            ("uvicorn",),
            (),
            (
                "dev needs 'watchfiles', which is not installed; run: pip install"
                " 'mulligan[reload]', or give --no-reload"
            ),
        ),
        (
            (),
            ("--no-reload",),
            "dev needs 'uvicorn', which is not installed; run: pip install 'mulligan[server]'",
        ),
    ],
)
def test_dev_names_all_that_it_needs_at_once(monkeypatch, there, options, words):
    monkeypatch.setattr(dev, "find_spec", lambda name: name if name in there else None)
    assert refused(2, "dev", APP, *options).endswith(words)


def test_dev_needs_an_app():
    assert "Missing argument 'APP'" in refused(2, "dev")


def test_options_are_handed_on_as_they_were_given():
    options = ["x:app", "-c", "5", "--no-hold-through-backoff", "--processes", "2", "--reload"]
    context = worker_command.make_context("worker", options)
    found = given_arguments(context, ("processes", "reload"))
    assert found == ["--concurrency", "5", "--no-hold-through-backoff"]


class Scripted(ProcessGroup):
    """A group whose members end at once, with the codes that the test says."""

    def __init__(self, *codes: int) -> None:
        super().__init__([Member("a", ())], prefix=True)
        self.codes = list(codes)

    async def _once(self, member: Member) -> int:
        await asyncio.sleep(0)
        return self.codes.pop(0)


async def test_members_that_end_in_order_are_not_started_again(monkeypatch):
    group = Scripted(0, 1)
    await group.run(reload=False)
    assert (group.code, group.codes) == (0, [1])


async def test_the_death_of_a_member_is_waited_off_longer_each_time(monkeypatch, capsys):
    monkeypatch.setattr(process_group, "FIRST_REST", 0.001)
    group = Scripted(1, -9, 0)
    await group.run(reload=False)
    said = capsys.readouterr().err
    assert "a ended (exit code 1); starting it again in 0.001 s" in said
    assert "a ended (killed by SIGKILL); starting it again in 0.002 s" in said


def test_a_port_that_is_taken_is_refused(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(2, "dev", APP, "--no-reload", "--port", str(port),
                       TEST_STORE=f"sqlite:///{tmp_path}/jobs.db")  # fmt: skip
    assert f"port {port} of 127.0.0.1 cannot be used" in said


def test_a_group_that_cannot_start_says_which(monkeypatch):
    monkeypatch.setattr(ProcessGroup, "_once", Scripted._once)
    monkeypatch.setattr(ProcessGroup, "codes", [2], raising=False)
    with pytest.raises(click.ClickException, match="a cannot start; see above"):
        run_group([Member("a", ())], reload=False, prefix=False)


def test_members_do_not_group_again(monkeypatch):
    monkeypatch.setenv("MULLIGAN_PROCESSES", "4")
    assert "MULLIGAN_PROCESSES" not in process_group.environment()
