"""A newcomer's first half hour: the tutorial, typed in order, in an empty environment."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.tutorial.transcript import File, missing, steps

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/tutorial/index.md"
# they run until they are stopped
STAYING = ("mulligan worker", "mulligan serve")
PATIENCE = 300
# the pip of these tests, working on the newcomer's environment: one less to install
PIP = f"{sys.executable} -m pip --python .venv -q --disable-pip-version-check"


class Newcomer:
    """Has a folder, an environment, and a terminal for each program that stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("MULLIGAN_")}
        self.env |= {"PATH": f"{folder}/.venv/bin:{os.environ['PATH']}", "COLUMNS": "90"}
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def types(self, line: str, prints: tuple[str, ...]) -> None:
        """Run one command and compare what it prints."""
        if line.startswith(("python3 -m venv", ". .venv")):
            return  # the fixture has made it, and PATH begins with it
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self.env[name] = value
        elif line.startswith(STAYING):
            self.starts(line, prints)
        else:
            done = subprocess.run(
                ["bash", "-c", line],
                **self.terminal(),
                stdout=subprocess.PIPE,
                timeout=PATIENCE,
                check=False,
            )
            said = done.stdout.decode()
            failed = any("Failed for good" in each for each in prints)  # then `watch` ends with 1
            assert done.returncode == failed, f"{line}\n{said}"
            assert (lacking := missing(prints, said)) is None, f"{line}: {lacking}\n{said}"

    def starts(self, line: str, prints: tuple[str, ...]) -> None:
        """Start a program that stays, instead of the one of its kind, and wait for its words."""
        kind = line.split()[1]
        self.stops(kind)
        if kind == "serve":
            line += f" --port {free_port()}"
        log = self.folder / f"{kind}.log"
        with log.open("wb") as output:
            self.running[kind] = subprocess.Popen(
                ["bash", "-c", f"exec {line}"], **self.terminal(), stdout=output
            )
        ends = time.monotonic() + PATIENCE
        while (lacking := missing(prints, log.read_text())) is not None:
            assert time.monotonic() < ends, f"{line}: {lacking}\n{log.read_text()}"
            time.sleep(0.05)

    def stops(self, kind: str) -> None:
        """Ctrl-C, and wait for the prompt."""
        if (process := self.running.pop(kind, None)) is not None:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0

    def terminal(self) -> dict[str, Any]:
        return {
            "cwd": self.folder,
            "env": self.env,
            "stdin": subprocess.DEVNULL,
            "stderr": subprocess.STDOUT,
        }


@pytest.fixture
def newcomer(tmp_path):
    venv.create(tmp_path / ".venv")
    someone = Newcomer(tmp_path)
    yield someone
    for process in someone.running.values():
        process.kill()
        process.wait()


@pytest.fixture
def wheel(tmp_path_factory):
    """What `pip install mulligan` would bring, of these sources."""
    folder = tmp_path_factory.mktemp("dist")
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_every_command_of_the_tutorial_prints_what_it_says(newcomer, wheel):
    for step in steps(PAGE):
        if isinstance(step, File):
            newcomer.folder.joinpath(step.name).write_text(step.text)
            continue
        line = re.sub(r"'mulligan\[", f"'{wheel}[", step.line)
        line = re.sub(r"^pip install ", f"{PIP} install --no-compile ", line)
        newcomer.types(line, step.prints)
    for kind in list(newcomer.running):
        newcomer.stops(kind)


def test_a_line_that_was_not_printed_is_missed():
    printed = "09:00:00.100 info    ready\n a  done  0.3 s ago\n"
    assert missing(("10:00:00.200 info ready", "a done 7 s ago"), printed) is None
    assert missing(("a done 7 s ago", "info ready"), printed) == "info ready"
    assert missing(("a failed",), printed) == "a failed"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
