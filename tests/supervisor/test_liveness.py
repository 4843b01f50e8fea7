"""A lock is held exactly as long as its process lives, and no number in a file is trusted."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.supervisor.liveness import (
    Holder,
    acquire,
    holders,
    is_held,
    notify,
    read_holder,
    write_holder,
)
from mulligan.supervisor.output import LONGEST_FILE, Output
from mulligan.supervisor.process import Command, Process, adopt, age_of, in_words, is_leader, start


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "a-1.lock"


def child(lock: Path, *command: str) -> Process:
    """A process that holds the lock."""
    opened = acquire(lock)
    assert opened is not None
    try:
        with lock.with_suffix(".log").open("ab") as log:
            return start(Command(command, {}), opened, log)
    finally:
        os.close(opened)


def wait(process: Process) -> None:
    while not process.ended:
        os.sched_yield()


def test_a_lock_is_held_by_one(lock):
    assert not is_held(lock)
    opened = acquire(lock)
    assert opened is not None
    assert is_held(lock)
    assert acquire(lock, wait=0.05) is None
    os.close(opened)
    assert not is_held(lock)


def test_no_other_user_may_open_a_lock_or_read_an_output(lock, tmp_path):
    lock.touch(0o644)
    opened = acquire(lock)
    assert opened is not None
    os.close(opened)
    output = Output(tmp_path / "a-1.log")
    output.open().close()
    for file in (lock, tmp_path / "a-1.log"):
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_process_of_another_user_holds_nothing(lock, monkeypatch):
    opened = acquire(lock)
    assert opened is not None
    with subprocess.Popen(["sleep", "600"], pass_fds=(opened,)) as other:
        assert holders(lock) == [other.pid]
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert holders(lock) == []
        other.kill()
    os.close(opened)


def test_a_child_holds_the_lock_until_it_ends(lock):
    process = child(lock, "sleep", "600")
    assert is_held(lock)
    assert holders(lock) == [process.pid]
    assert is_leader(process.pid)
    process.send(signal.SIGKILL)
    wait(process)
    assert not is_held(lock)
    assert holders(lock) == []
    assert in_words(process.code) == "killed by SIGKILL"
    process.close()


def test_who_does_not_hold_the_lock_is_not_adopted(lock):
    lock.touch()
    write_holder(lock, Holder(os.getppid(), "x", 1.0))
    assert adopt(os.getppid(), lock) is None


def test_who_has_ended_is_not_adopted(lock):
    process = child(lock, "true")
    wait(process)
    assert adopt(process.pid, lock) is None
    assert not is_leader(process.pid)
    assert age_of(process.pid) == 0.0
    process.send(signal.SIGTERM)
    assert process.memory == 0
    process.close()


def test_an_adopted_process_is_seen_to_end_without_being_its_parent(lock):
    process = child(lock, "sleep", "600")
    other = adopt(process.pid, lock)
    assert other is not None
    assert not other.ended
    assert other.memory > 0
    other.send(signal.SIGKILL)
    wait(other)
    assert other.code is None
    assert in_words(other.code) == "exit code unknown (adopted)"
    wait(process)
    other.close()
    process.close()


def test_the_lock_file_says_who_holds_it_and_how_and_may_say_nothing(lock):
    assert read_holder(lock) == Holder()
    lock.touch()
    assert read_holder(lock) == Holder()
    write_holder(lock, Holder(12345, "a longer digest than the next", 1.5))
    write_holder(lock, Holder(7, "b", 2.5))
    assert read_holder(lock) == Holder(7, "b", 2.5)


def test_it_is_held_over_an_exec(lock):
    """A worn worker replaces itself by a fresh process of the same number."""
    program = "import os; os.execvp('sleep', ['sleep', '600'])"
    process = child(lock, sys.executable, "-c", program)
    command = Path(f"/proc/{process.pid}/cmdline")
    while not command.read_bytes().startswith(b"sleep"):
        os.sched_yield()
    assert is_held(lock)
    process.send(signal.SIGKILL)
    wait(process)
    process.close()


def test_a_grandchild_started_the_usual_way_does_not_hold_it(lock):
    program = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    process = child(lock, sys.executable, "-c", program)
    wait(process)
    assert not is_held(lock)
    process.close()
    os.kill(int(lock.with_suffix(".log").read_text()), 9)


def test_exits_are_told_in_words():
    assert in_words(3) == "exit code 3"
    assert in_words(-15) == "killed by SIGTERM"
    assert in_words(-77) == "killed by signal 77"


def test_lines_are_read_as_they_are_finished(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"before\n")
    output = Output(path)
    assert list(output.last) == ["before"]
    with path.open("ab", buffering=0) as log:
        log.write(b"one\ntw")
        assert output.read() == ["one"]
        log.write(b"o\nthr\xffee")
        assert output.read() == ["two"]
    assert output.finish() == ["thr\ufffdee"]
    assert list(output.last) == ["before", "one", "two", "thr\ufffdee"]


def test_a_new_process_begins_with_an_empty_log(tmp_path):
    output = Output(tmp_path / "log")
    assert output.read() == []
    with output.open() as log:
        log.write(b"old\n")
    assert output.read() == ["old"]
    output.open().close()
    assert output.read() == []
    assert list(output.last) == []


def test_a_log_does_not_grow_without_end(tmp_path):
    output = Output(tmp_path / "log")
    with output.open() as log:
        log.write(b"x\n" * LONGEST_FILE)
        log.flush()
        assert len(output.read()) == LONGEST_FILE
        assert (tmp_path / "log").stat().st_size == 0
        log.write(b"goes on\n")
        log.flush()
        assert output.read() == ["goes on"]


def test_a_shell_that_opens_the_file_is_a_holder(lock):
    lock.touch()
    with lock.open() as opened, subprocess.Popen(["sleep", "600"], stdin=opened) as process:
        assert holders(lock) == [process.pid]
        process.kill()


def test_a_service_manager_that_reads_nothing_stops_nobody(tmp_path, monkeypatch):
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
    ):
        manager.bind(path)
        notify("READY=1")
        assert manager.recv(100) == b"READY=1"
        sender.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                sender.sendto(b"WATCHDOG=1", path)
        notify("WATCHDOG=1")
