"""A supervisor as a process, followed by the events that it prints."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mulligan.supervisor.liveness import holders, is_held

LONGEST_WAIT = 120.0
# Tiny times, so that a test need not wait for any of them.
QUICK = {"cooldown": 0, "backoff": 0.05, "backoff_max": 0.2, "drain_timeout": 20}

Event = dict[str, Any]


class Fleet:
    """A fleet file in a folder of its own, and the supervisors that run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "fleet.toml"
        self.state = folder / ".mulligan" / "fleet"
        self.url = f"sqlite:///{folder}/jobs.db"
        self.ledger = folder / "ledger"
        self.gate = folder / "gate"
        self.events: list[Event] = []
        self._news = threading.Condition()
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []

    def write(self, *, orphan_grace: float = 30, **kinds: dict[str, Any]) -> None:
        """Write the fleet file; a kind without app or command runs the tests' app."""
        lines = ["every = 0.1", f"orphan_grace = {orphan_grace}"]
        for name, fields in kinds.items():
            own = {} if {"command", "app", "store"} & set(fields) else {"app": APP}
            lines.append(f"[kinds.{name}]")
            lines += [
                f"{key} = {json.dumps(value)}" for key, value in (QUICK | own | fields).items()
            ]
        self.file.write_text("\n".join(lines))

    def start(self) -> "subprocess.Popen[str]":
        """Start a supervisor."""
        process = subprocess.Popen(
            [sys.executable, "-m", "mulligan", "supervise", str(self.file), "--json"],
            env={**os.environ, "TEST_STORE": self.url},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._processes.append(process)
        listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        listener.start()
        self._listeners.append(listener)
        return process

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                event = json.loads(line) if line.startswith("{") else {"event": "?", "text": line}
                with self._news:
                    self.events.append(event)
                    self._news.notify_all()

    def until(self, wanted: Callable[[], Any]) -> Any:
        """Wait until the events make it true; what it then is."""
        deadline = time.monotonic() + LONGEST_WAIT
        with self._news:
            while not (found := wanted()):
                left = deadline - time.monotonic()
                assert left > 0, "\n".join(map(str, self.events[-40:]))
                self._news.wait(min(left, 0.1))
            return found

    def all(self, event: str, slot: str = "", text: str = "") -> list[Event]:
        """The events of this kind so far."""
        return [
            each for each in self.events
            if each["event"] == event and slot in each.get("slot", "") and text in each["text"]
        ]  # fmt: skip

    def heard(self, event: str, slot: str = "", text: str = "", times: int = 1) -> Event:
        """Wait until it has happened so many times; the last of them."""
        found: list[Event] = self.until(
            lambda: found if len(found := self.all(event, slot, text)) >= times else None
        )
        return found[times - 1]

    def pids(self) -> dict[str, int]:
        """The processes that hold a slot now, by slot."""
        return {
            path.stem: found[0]
            for path in sorted(self.state.glob("*-*.lock"))
            if is_held(path) and (found := holders(path))
        }

    def ready(self, kind: str, count: int) -> dict[str, int]:
        """Wait until so many processes of the kind are ready; their ids by slot."""

        def found() -> dict[str, int] | None:
            said = {(each["slot"], each["pid"]) for each in self.all("ready") + self.all("adopted")}
            over = {
                (each["slot"], each["pid"])
                for each in self.all("died") + self.all("ended")
                if "pid" in each
            }
            now = {slot: pid for slot, pid in said - over if slot.startswith(f"{kind}-")}
            return now if len(now) == count and now.items() <= self.pids().items() else None

        pids: dict[str, int] = self.until(found)
        return pids

    def ran(self) -> list[tuple[str, int]]:
        """Which job ran in which process, in the order of their starts."""
        if not self.ledger.exists():
            return []
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return [(job, int(pid)) for job, pid in lines]

    def stop(self, process: "subprocess.Popen[str]") -> int:
        """Tell a supervisor to stop; its exit code."""
        process.send_signal(signal.SIGTERM)
        return process.wait(LONGEST_WAIT)

    def end_all(self) -> None:
        """Leave nothing running."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for pid in self.pids().values():
            os.kill(pid, signal.SIGKILL)
        for listener in self._listeners:
            listener.join(LONGEST_WAIT)


APP = "tests.supervisor.apps:app"


@contextmanager
def fleet_in(folder: Path) -> Iterator[Fleet]:
    """A fleet of which nothing is left in the end."""
    fleet = Fleet(folder)
    try:
        yield fleet
    finally:
        fleet.end_all()


def gone(pid: int) -> bool:
    """Whether the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
