"""Bad input: a line or two in words, and an exit code; never a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.core.errors import StoreUnavailableError
from tests.cli.command_line import APP, refused, run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status"], "no store is named; give --app module:attribute or --store URL"),
        (["job", "some", "shop:app"], "argument (shop:app); an app is given as --app shop:app"),
        (["wroker", "shop:app"], "no command is named 'wroker'; did you mean worker?"),
        (["zzz"], "No such command 'zzz'"),
        (["status", "tests.cli.apps"], "'tests.cli.apps' is not written module:attribute"),
        (["status", ":app"], "':app' is not written module:attribute"),
        (["status", "no.such.module:app"], "there is no module 'no'"),
        (["status", "tests.cli.nothing:app"], "there is no module 'tests.cli.nothing'"),
        (["status", "tests.cli.broken:app"], "No module named 'a_module_that_is_nowhere' (at "),
        (["status", "tests.cli.apps:nothing"], "its apps are: app, filed"),
        (["status", "tests.cli.apps:not_an_app"], "it is a str"),
        (["status", "tests.cli.apps:send"], "must be a Mulligan, and it is a task"),
        (["status", "tests.cli.command_line:nothing"], "it has none"),
        (["status", "tests/cli/apps.py:app"], "names a file; write its module, with dots"),
        (["status", "tests/cli/apps.py:app"], "without .py, such as tests.cli.apps:app"),
        (["status", "apps.py:app"], "and without .py, such as apps:app"),
        (["status", "apps.py"], "'apps.py' is not written module:attribute, such as apps:app"),
        (["status", "redis://:secret@here/0"], "app 'redis://:***@here/0' is a URL and not"),
        (["status", "..:app"], "app '..:app' cannot be imported: TypeError"),
        (["status", "--store", "mysql://x"], "redis://, rediss://, valkey://, valkeys://, unix://"),
        (["status", "--store", "mysql://x"], "does not begin with one of memory://, sqlite://"),
        (["status", "--store", "nonsense"], "store 'nonsense' does not begin"),
        (["status", "--store", "redis://[bad"], "begins with 'redis' is not a URL"),
        (["status", "--store", "sqlite:///x.db?fast=1"], "option 'fast'"),
        (["enqueue", APP, "send", "--retry", '{"MaxRetries": 1}'], "; did you mean max_retries?"),
        (["enqueue", APP, "send", "--retry", '{"max_retries"'], "is no JSON"),
        (["status", APP, "--store", "memory://"], "give APP or --store, not both"),
        (["status", APP, "--app", APP], "give one of them"),
        (["settings", APP, "--app", APP], "give one of them"),
        (["status", APP, "--watch", "--every", "0"], "--every"),
        (["status", APP, "--nonsense"], "No such option"),
        (["nonsense"], "No such command 'nonsense'"),
        (["--nonsense"], "No such option"),
        (["-A", APP, "status"], "'-A' here; options of a command stand after it: mulligan COMMAND"),
        (["dead", "--app", APP, "list"], "after it: mulligan dead COMMAND --app ..."),
        (["jobs", "-a", APP, "--limit", "many"], "'many' is not a valid integer"),
        (["jobs", "-a", APP, "--limit", "0"], "0 is not in the range"),
        (["jobs", "-a", APP, "--status", "lost"], "'lost' is not one of 'pending'"),
        (["job", "-a", APP], "Missing argument 'JOB'"),
        (["pause", "a\nb", "-a", APP], r"has the control character '\n'"),
        (["pause", "x" * 129, "-a", APP], "has 129 characters; use 1 to 128"),
        (["enqueue", APP, "nothing"], "task 'nothing' is not one of send, add"),
        (["enqueue", APP, "add", "1"], "cannot be called so"),
        (["enqueue", APP, "send", "[" * 201 + "]" * 201], "more than 200 levels deep; flatten it"),
        (["enqueue", APP, "send", "[" * 9_000 + "]" * 9_000], "more than 200 levels deep"),
        (["enqueue", APP, "add", "1", "two"], "argument b='two' is not int"),
        (["enqueue", APP, "send", "a", "-k", "subject"], "not written NAME=VALUE"),
        (["enqueue", APP, "send", "a", "--delay", "-1"], "delay -1 must be between"),
        (["enqueue", APP, "send", "a", "--region", "*x"], "must not begin with '*'"),
        (["worker", APP, "--concurrency", "0"], "0 is not in the range"),
        (["worker", APP, "--region", "*"], "must not begin with '*'"),
        (["worker", APP, "--queues", "a,,b"], "has 0 characters"),
        (["worker", APP, "--only", "some"], "'some' is not one of"),
        (["worker", APP, "--drain-timeout", "-1"], "drain-timeout -1 must be between"),
        (["worker"], "Missing argument 'APP'"),
        (["worker", APP, "-a", APP], "give one of them"),
        (["enqueue", APP], "Missing argument 'TASK'"),
        (["jobs", APP, "-a", APP], "give one of them"),
        (["copy", "memory://", "memory://"], "is given twice"),
        (["copy", "memory://", "mysql://x"], "does not begin with one of"),
        (["demo", "--seconds", "0"], "0.0 is not in the range"),
        (["demo", "--seconds", "nan"], "seconds nan must be between"),
        (["status", APP, "--watch", "--every", "inf"], "every inf must be between"),
        (["enqueue", APP, "send", "a", "--delay", "nan"], "delay nan must be between"),
        (["jobs", "-a", APP, "--after", "nonsense"], "cursor 'nonsense' is not one"),
        (["job", "\udcff", "-a", APP], r"argument '\udcff' is not UTF-8"),
    ],
)  # fmt: skip
def test_wrong_values_are_named_with_the_rule(arguments, words, store):
    assert words in refused(2, *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["job", "nowhere", "-a", APP], "no job 'nowhere' is stored in memory://"),
        (["explain", "nowhere", "-a", APP], "no job 'nowhere' is stored"),
        (["cancel", "nowhere", "-a", APP], "nowhere (unknown)"),
        (["dead", "replay", "nowhere", "-a", APP], "not replayed: nowhere"),
        (["status", "--store", "sqlite:///no/such.db"], "there is no file no/such.db"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_told(arguments, words, store):
    assert words in refused(1, *arguments)


def test_a_module_that_is_no_python_is_told_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "unfinished.py").write_text("import sys\ndef task(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    said = refused(2, "status", "unfinished:app")
    assert "cannot be imported: SyntaxError: " in said
    assert said.endswith(f"(at {tmp_path}/unfinished.py:2)")


@pytest.mark.parametrize("command", ["settings", "settings --json", "simulate timeline-1"])
def test_output_that_finds_no_room_is_told(command):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "mulligan", *command.split()],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    said = "error: the output could not be written: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, said)


def test_a_password_is_never_shown(store):
    said = refused(2, "status", "--store", "mysql://me:secret@host/db")
    assert "secret" not in said
    assert "***" in said


def test_a_store_that_cannot_read_its_url_is_told(store, monkeypatch):
    async def confused(**_):
        raise ValueError("the port is no number")

    monkeypatch.setattr(store, "open", confused)
    assert "cannot be opened: the port is no number" in refused(2, "status", APP)


@pytest.mark.parametrize("error", [ConnectionRefusedError("refused"), TimeoutError()])
def test_a_store_that_cannot_be_reached_is_told(store, monkeypatch, error):
    async def unreachable(**_):
        raise error

    monkeypatch.setattr(store, "open", unreachable)
    for command in (["status", APP], ["doctor", APP], ["jobs", "-a", APP], ["migrate", APP]):
        assert "cannot be opened" in refused(1, *command)


def test_what_a_store_says_of_itself_is_passed_on(store, monkeypatch):
    async def unreachable(**_):
        raise StoreUnavailableError("nobody\nanswers")

    monkeypatch.setattr(store, "open", unreachable)
    assert refused(1, "status", APP) == r"error: nobody\nanswers"


def test_the_environment_stands_in_for_options(store):
    assert run("status", MULLIGAN_APP=APP).exit_code == 0
    assert run("status", MULLIGAN_STORE="memory://").exit_code == 0
    assert run("status", APP, MULLIGAN_STORE="mysql://x").exit_code == 0
    assert run("status", "--store", "memory://", MULLIGAN_APP="no:thing").exit_code == 0
    assert refused(2, "status", MULLIGAN_STORE="mysql://x")


@pytest.mark.parametrize("guarded", [False, True])
def test_a_command_whose_import_of_the_app_enqueues_says_so(tmp_path, monkeypatch, guarded):
    module = f"early_{guarded}"
    call = "    send.enqueue()" if guarded else "send.enqueue()"
    lines = [
        "from mulligan import Mulligan",
        f"app = Mulligan('sqlite:///{tmp_path}/jobs.db')",
        "@app.task",
        "def send() -> None: ...",
        *(['if __name__ == "__main__":'] if guarded else []),
        call,
    ]
    (tmp_path / f"{module}.py").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    said = run("migrate" if guarded else "jobs", f"{module}:app")
    assert said.exit_code == 0
    assert (f"note: importing {module} enqueues jobs" in said.stderr) is not guarded
