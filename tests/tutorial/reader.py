"""Types what a page says, in a folder of its own, and keeps what is printed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.tutorial.transcript import Command, File, missing, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
# they run until they are stopped: the next of its kind stops one, and so does the page's end
STAYING = re.compile(
    r"mulligan (worker|serve|supervise|dev)\b(?!.*(--help|--once|--check|--status))"
)
# what they show may be a few seconds old, as the pages say: a reader looks again
LATE = re.compile(r"mulligan tasks\b")
LONGEST_WAIT = 60
WIDTH = "120"
# what a page calls this machine
HOST = "web-1"


class Reader:
    """Has a folder, an environment, and a terminal for each program that stays."""

    def __init__(
        self, folder: Path, programs: Path | None = None, places: Mapping[str, str] | None = None
    ) -> None:
        """`programs` is where mulligan is, and `places` has a real one for what a page names."""
        self.folder = folder
        programs = programs or Path(sys.executable).parent
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("MULLIGAN_")}
        self.env |= {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder)}
        self.env |= {"COLUMNS": WIDTH, "TZ": "UTC", "NO_COLOR": "1"}
        self.places = dict(places or {})
        self.ports = {port: str(free_port()) for port in ("8420", "8421")}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kind in list(self.running):
            self.stops(kind)

    def does(self, step: File | Command) -> list[str]:
        """Take one step of a page; the lines that it shows then."""
        if isinstance(step, File):
            self.writes(step)
            return []
        return shown(step.prints, self.types(step.line, step.prints))

    def writes(self, file: File) -> None:
        """Write a file; blocks of one page that name none are one file."""
        path = self.folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = file.name == "shop.py" and not file.text.startswith("# shop.py")
        before = path.read_text() if begun and path.exists() else ""
        path.write_text(before + file.text)

    def types(self, line: str, prints: tuple[str, ...] = ()) -> str:
        """Run one command; what it printed."""
        line = self.real(line)
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self.env[name] = value
            return ""
        if found := STAYING.match(line):
            return self.on_the_page(self.starts(found[1], line, prints))
        ends = time.monotonic() + LONGEST_WAIT
        while True:
            done = subprocess.run(
                ["bash", "-c", line],
                **self.terminal(),
                stdout=subprocess.PIPE,
                timeout=3 * LONGEST_WAIT,
                check=False,
            )
            printed = self.on_the_page(done.stdout.decode())
            is_old = LATE.match(line) is not None and missing(prints, printed) is not None
            if not is_old or time.monotonic() > ends:
                break
        if done.returncode:
            self.failed.append(line)
        return printed

    def starts(self, kind: str, line: str, prints: tuple[str, ...]) -> str:
        """Start a program that stays, instead of the one of its kind, and wait for its words."""
        self.stops(kind)
        if kind == "serve":
            line += f" --port {self.ports['8420']}"
        log = self.folder / f"{kind}.log"
        with log.open("wb") as output:
            self.running[kind] = subprocess.Popen(
                ["bash", "-c", f"exec {line}"], **self.terminal(), stdout=output
            )
        ends = time.monotonic() + LONGEST_WAIT
        while missing(prints or ("ready for",), self.on_the_page(log.read_text())) is not None:
            if time.monotonic() > ends or self.running[kind].poll() is not None:
                break
            time.sleep(0.05)
        return log.read_text()

    def stops(self, kind: str) -> None:
        """Ctrl-C, and wait for the prompt."""
        if (process := self.running.pop(kind, None)) is not None:
            process.send_signal(signal.SIGINT)
            if process.wait(LONGEST_WAIT):
                self.failed.append(kind)

    def real(self, line: str) -> str:
        """A command of a page with places that exist."""
        for named, place in (self.places | self.ports).items():
            line = line.replace(named, place)
        return line

    def on_the_page(self, printed: str) -> str:
        """What was printed, with the places that the page names."""
        for named, place in (self.places | self.ports).items():
            for said in (place, re.sub("//[^@/]*@", "//***@", place)):
                printed = printed.replace(said, named)
        printed = printed.replace(str(self.folder), "/home/you/shop")
        here = re.escape(socket.gethostname())
        return re.sub(rf"\b{here}(?=-\d)|(?<= on ){here}\b", HOST, printed)

    def terminal(self) -> dict[str, Any]:
        return {
            "cwd": self.folder,
            "env": self.env,
            "stdin": subprocess.DEVNULL,
            "stderr": subprocess.STDOUT,
        }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
