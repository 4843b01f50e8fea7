"""`mulligan supervise` and what belongs to it, as commands."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys

import msgspec
import pytest
from rich.console import Console

from mulligan.cli.app_facts import read_app_facts
from mulligan.cli.fleet_view import picture, status_tables
from mulligan.core.errors import InvalidError
from mulligan.core.fleets import PREFIX, Exit, FleetState, KindState, SlotState, fleets, note_key
from mulligan.supervisor.events import Event
from mulligan.supervisor.fleet import Kind
from mulligan.supervisor.liveness import notify
from mulligan.supervisor.process import command_for
from tests.cli.command_line import good, good_json, process, read_until, refused
from tests.store_kit import STORES
from tests.supervisor.fleet import APP

pytestmark = pytest.mark.timeout(400)


def test_a_bad_file_is_refused_in_one_line(tmp_path):
    file = tmp_path / "fleet.toml"
    assert "cannot be read: No such file" in refused(2, "supervise", str(file))
    file.write_text(f"[kinds.a]\napp = '{APP}'\nmin = 3\nmax_concurrent = 1")
    assert f"{file}:3: min 3 must not be more" in refused(2, "supervise", str(file))
    file.write_text("[kinds.a]\napp = 'no.such:app'")
    said = refused(2, "supervise", str(file))
    assert f"{file}:2: app 'no.such:app': there is no module 'no'" in said
    file.write_text(f"[kinds.a]\napp = '{APP}'")
    assert "memory:// is seen by one process alone" in refused(2, "supervise", str(file))


def test_a_file_can_be_checked_without_starting_anything(fleet):
    env = {"TEST_STORE": "redis://me:secret@localhost/0"}
    fleet.write(mail={"max_concurrent": 3, "env": "x"})
    fleet.file.write_text(fleet.file.read_text().replace('env = "x"', 'env = {KEY = "secret"}'))
    said = good("supervise", str(fleet.file), "--check", **env)
    assert said.splitlines() == [f"mail: 1 to 3 of {APP}", f"{fleet.file} is good"]
    whole = good("supervise", str(fleet.file), "--check", "--json", **env)
    assert json.loads(whole)["kinds"]["mail"]["slots"] == 2
    assert "secret" not in whole
    assert not fleet.state.exists()


def test_the_status_is_that_of_the_last_supervisor(fleet):
    fleet.write(mail={})
    assert "no supervisor has run" in refused(1, "supervise", str(fleet.file), "--status")
    first = fleet.start()
    pid = fleet.ready("mail", 1)["mail-1"]
    fleet.until(lambda: shown(fleet)["kinds"]["mail"]["running"] == 1)
    seen = good_json("supervise", str(fleet.file), "--status")
    assert seen["alive"]
    assert seen["pid"] == first.pid
    assert seen["kinds"]["mail"]["slots"][0]["pid"] == pid
    assert "mail-1" in good("supervise", str(fleet.file), "--status")
    assert fleet.stop(first) == 0
    with process("supervise", str(fleet.file), "--status") as asked:
        out, _ = asked.communicate()
    assert asked.returncode == 1
    assert "not running" in out
    assert "the fleet stops; exit code 0" in out


def shown(fleet):
    return json.loads((fleet.state / "state.json").read_bytes())


def test_a_live_table_on_a_terminal_which_tells_the_service_manager_that_it_lives(fleet):
    fleet.write(mail={})
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mulligan", "supervise", str(fleet.file)]
    env = {**os.environ, "TEST_STORE": fleet.url, "TERM": "xterm", "COLUMNS": "150"}
    manager = fleet.file.parent / "notify"
    env |= {"NOTIFY_SOCKET": str(manager), "WATCHDOG_USEC": "300000"}
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(manager))
    with (
        told,
        subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as started,
    ):
        os.close(theirs)
        lived = 0
        while lived < 3:  # again and again
            lived += b"WATCHDOG=1" in told.recv(4096)
        seen = ""
        while "ready: after" not in seen:
            seen += os.read(ours, 4096).decode("utf-8", "replace")
        assert started.poll() is None
        started.send_signal(signal.SIGTERM)
        while "every process has ended" not in seen:
            seen += os.read(ours, 4096).decode("utf-8", "replace")
        assert started.wait() == 0
    os.close(ours)
    assert "Processes" in seen
    assert "mail-1" in seen


def test_a_state_folder_that_cannot_be_used_is_refused(fleet):
    fleet.write(keep={"command": ["sleep", "600"]})
    fleet.state.parent.mkdir()
    fleet.state.touch()
    said = refused(2, "supervise", str(fleet.file), "--plain")
    assert f"state folder {fleet.state} cannot be used: File exists" in said


def test_the_state_folder_cannot_change_while_the_fleet_runs(fleet):
    fleet.write(any={"command": ["sleep", "600"]})
    first = fleet.start()
    fleet.heard("ready")
    fleet.file.write_text('state = "elsewhere"\n' + fleet.file.read_text())
    first.send_signal(signal.SIGHUP)
    assert "cannot change while the fleet runs" in fleet.heard("refused")["text"]
    assert fleet.stop(first) == 0


def test_lines_for_people_when_no_terminal_is_there(fleet):
    fleet.write(mail={})
    with process("supervise", str(fleet.file), TEST_STORE=fleet.url) as started:
        lines = read_until(started, "ready: after")
        started.send_signal(signal.SIGINT)
        lines += read_until(started, "stopped: every process has ended")
        assert started.wait() == 0
    assert any("info    mail-1 (pid " in line and line.endswith("started") for line in lines)
    assert any(line.startswith("mail-1 | ") and line.endswith("ready for jobs") for line in lines)


@pytest.mark.parametrize(
    "store_url",
    ["sqlite", *(pytest.param(name, marks=pytest.mark.prove) for name in STORES[2:])],
    indirect=True,
)
def test_every_store_is_worked_kept_in_order_and_told_of_the_fleet(store_url, fleet, on_store):
    fleet.url = store_url
    fleet.write(mail={}, keep={"service": True})
    first = fleet.start()
    fleet.ready("mail", 1)
    fleet.ready("keep", 1)

    def notes():
        return fleets(on_store(lambda store: store.notes(PREFIX)))

    key = f"{socket.gethostname()}/fleet"
    fleet.until(lambda: notes().get(key, {"kinds": {"mail": {}}})["kinds"]["mail"].get("running"))
    assert notes()[key]["pid"] == first.pid
    assert fleet.stop(first) == 0
    assert notes() == {}


def test_an_app_is_asked_in_a_process_of_its_own():
    facts = read_app_facts(APP, {"TEST_STORE": "sqlite:///x.db"})
    assert (facts.url, facts.queues, facts.concurrency) == ("sqlite:///x.db", ("default",), 2)
    with pytest.raises(InvalidError, match="must be a Mulligan"):
        read_app_facts("tests.supervisor.apps:HOG", {})
    with pytest.raises(InvalidError, match="cannot be imported: exit code 7"):
        read_app_facts("tests.supervisor.deadly:app", {})


STATE = FleetState(
    "answers", "host", 7, 100.0, 40.0, "running",
    {
        "mail": KindState(
            2, "depth 40, oldest wait 12 s", 1, 0, 0, 1, 40, 12.0, 2e9,
            (SlotState("mail-1", "running", 8, 60.0, adopted=True), SlotState("mail-2", "resting")),
            (Exit("mail-2", 9, 90.0, "killed by SIGKILL after 3.0 s", ("last \x1b[31mwords",)),),
        )
    },
    {"redis://host": "refused"},
)  # fmt: skip


def drawn(what) -> str:
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(what)
    text = console.export_text()
    console.file.close()
    return text


def test_the_live_table_says_how_the_fleet_is_and_what_happened():
    died = Event("died", "exit code 3", 95.0, "mail-2", 9, ("first", "no licence"))
    text = drawn(picture(STATE, [died]))
    for part in (
        "fleet answers on host, pid 7",
        "mail-1",
        "adopted",
        "resting",
        "12.0 s",
        "redis://host does not answer: refused",
        "mail-2 (pid 9) died: exit code 3 | no licence",
    ):
        assert part in text  # fmt: skip


def test_the_status_shows_last_exits_with_last_words():
    text = drawn(status_tables(STATE, alive=False))
    assert "not running" in text
    assert "mail-2 (pid 9) killed by SIGKILL after 3.0 s" in text
    assert "last \\x1b[31mwords" in text


def test_notes_become_fleets_by_host_and_name():
    notes = {
        note_key("host", "answers"): msgspec.json.encode(STATE),
        note_key("host", "odd"): b"{}",
        note_key("host", "torn"): b"{",
    }
    found = fleets(notes)
    assert list(found) == ["host/answers"]
    assert found["host/answers"]["kinds"]["mail"]["wanted"] == 2


def test_the_command_of_a_slot_is_the_command_line_of_a_worker(tmp_path):
    kind = Kind(
        "eu", app="shop:app", queues=("a", "b"), region="EU", concurrency=5, only="retries", min=1
    )
    first, second = (command_for(kind, n, tmp_path / "s.lock", 9, kept=n == 1) for n in (1, 2))
    assert first.words[3:] == (
        "worker", "shop:app", "--region", "EU", "--queues", "a,b", "--concurrency", "5",
        "--only", "retries", "--name", "eu-1", "--drain-timeout", "30",
        "--supervisor", str(tmp_path / "s.lock"), "--orphan-grace", "9",
    )  # fmt: skip
    assert "--idle-exit" not in first.words, "it stays"
    assert second.words[-8:-4] == ("--name", "eu-2", "--drain-timeout", "30")
    assert "--idle-exit" in second.words
    assert first.digest != second.digest


def test_a_password_is_not_on_the_command_line(tmp_path):
    url = "redis://me:secret@host/0"
    command = command_for(Kind("d", service=True, store=url), 1, tmp_path / "s.lock", 9, kept=True)
    assert "housekeep" in command.words
    assert not any("secret" in word for word in command.words)
    assert command.env["MULLIGAN_STORE"] == url


def test_the_service_manager_is_told_if_it_asked(tmp_path, monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1", "STATUS=well")
        assert listener.recv(100) == b"READY=1\nSTATUS=well"
    notify("READY=1")  # nobody listens any more


def test_a_worker_ends_when_it_is_idle(fleet):
    with process("worker", APP, "--idle-exit", "0.2", "--name", "me", TEST_STORE=fleet.url) as one:
        read_until(one, "nothing to do for 0.2 s; ending")
        assert one.wait() == 0


def test_a_worker_that_works_is_not_idle(fleet, enqueue):
    enqueue("hold", str(fleet.gate), str(fleet.ledger))
    with process("worker", APP, "--idle-exit", "3", TEST_STORE=fleet.url) as one:
        fleet.until(lambda: len(fleet.ran()) == 1)
        enqueue("hold", str(fleet.gate), str(fleet.ledger))
        fleet.until(lambda: len(fleet.ran()) == 2)
        fleet.gate.touch()
        read_until(one, "nothing to do for 3 s; ending")
        assert one.wait() == 0


def test_a_housekeeper_needs_no_app(fleet):
    with process("housekeep", "--store", fleet.url) as one:
        lines = read_until(one, "ready for jobs")
        one.send_signal(signal.SIGTERM)
        read_until(one, "stopped")
        assert one.wait() == 0
    assert "keeping house" in lines[0]
    assert "no store is named" in refused(2, "housekeep")
