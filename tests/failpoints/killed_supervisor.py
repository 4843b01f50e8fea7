"""A supervisor killed at each of its steps: the next one finds all processes, doubles none."""

import asyncio
import os
import secrets
import signal
import time
from collections import Counter
from functools import wraps
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

from mulligan.cli.supervise import no_app_facts
from mulligan.supervisor.fleet_file import load_fleet
from mulligan.supervisor.liveness import holders, is_held
from mulligan.supervisor.supervisor import Supervisor, read_state
from tests.failpoints.one_death import LONGEST_WAIT, PROCESSES, Outcome, ended
from tests.failpoints.points import POINTS

SIZE = 2
LOOK_EVERY = 0.02
# What a supervisor does that lasts: files, locks and processes.
STEPS = (
    "mulligan.supervisor.supervisor:hold",
    "mulligan.supervisor.slot:acquire",
    "mulligan.supervisor.slot:write_holder",
    "mulligan.supervisor.slot:start",
    "mulligan.supervisor.slot:adopt",
)


class Kept(NamedTuple):
    """A fleet of plain processes that can be told from all others by how long they sleep."""

    folder: Path
    seconds: str

    @property
    def file(self) -> Path:
        """The fleet file."""
        return self.folder / "fleet.toml"

    @property
    def slots(self) -> dict[str, int]:
        """Which process holds which slot."""
        return {
            path.stem: found[0]
            for path in sorted(self.folder.glob("state/*-*.lock"))
            if is_held(path) and (found := holders(path))
        }

    def sleepers(self) -> set[int]:
        """Every process of this fleet that is alive, whoever knows of it."""
        wanted = f"sleep\0{self.seconds}\0".encode()
        found = set()
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if (each / "cmdline").read_bytes() == wanted:
                    found.add(int(each.name))
            except OSError:
                continue  # it ended while we looked
        return found


def make_fleet(folder: Path) -> Kept:
    """A fleet of two in a folder of its own."""
    kept = Kept(folder, f"600.{secrets.randbelow(10**9):09}")
    folder.mkdir(parents=True)
    lines = (
        f'state = "{folder / "state"}"',
        "[kinds.sleeper]",
        f'command = ["sleep", "{kept.seconds}"]',
        f"min = {SIZE}",
        f"max_concurrent = {SIZE}",
        "cooldown = 0",
        "backoff = 0.01",
        "backoff_max = 0.01",
    )
    kept.file.write_text("\n".join(lines))
    return kept


async def points_of(folder: Path, *, adopting: bool) -> list[str]:
    """The points that a supervisor passes until its fleet is complete."""
    kept = make_fleet(folder)
    ours, theirs = PROCESSES.Pipe(duplex=False)
    try:
        if adopting:
            await leave_behind(kept)
        process = launch(kept, None, theirs)
        await complete(kept, process)
        process.terminate()
        await ended(process, started=True)
        points: list[str] = ours.recv()
        return points
    finally:
        put_away(kept)


async def kill_at(point: str, folder: Path, *, adopting: bool) -> Outcome:
    """Let a supervisor die at the point, then let another one take over, and count."""
    kept = make_fleet(folder)
    try:
        before = await leave_behind(kept) if adopting else set()
        code = await ended(launch(kept, point), started=True)
        orphans = kept.sleepers()
        clean = launch(kept, None)
        wrong = await complete(kept, clean)
        now = kept.sleepers()
        wrong += [] if len(now) == SIZE else [f"{len(now)} processes instead of {SIZE}"]
        lost = (before or orphans) - now
        wrong += [f"{len(lost)} processes were not taken over"] if lost else []
        clean.terminate()
        await ended(clean, started=True)
        wrong += ["processes were left behind"] if kept.sleepers() else []
        return Outcome(point, code == -signal.SIGKILL, wrong)
    finally:
        put_away(kept)


async def leave_behind(kept: Kept) -> set[int]:
    """The processes of a supervisor that was killed when its fleet was complete."""
    first = launch(kept, None)
    await complete(kept, first)
    first.kill()
    await ended(first, started=True)
    return kept.sleepers()


async def complete(kept: Kept, process: ForkServerProcess) -> list[str]:
    """Wait until this supervisor says that its fleet is complete; what is wrong if it does not."""
    deadline = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < deadline:
        state = read_state(kept.folder / "state")
        if state is not None and state.pid == process.pid and len(kept.slots) == SIZE:
            return []
        await asyncio.sleep(LOOK_EVERY)
    return [f"the fleet was not complete after {LONGEST_WAIT:g} s"]


def put_away(kept: Kept) -> None:
    """Leave nothing running."""
    for pid in kept.sleepers():
        os.kill(pid, signal.SIGKILL)


def launch(kept: Kept, point: str | None, answer: Connection | None = None) -> ForkServerProcess:
    """A supervisor of the fleet that dies at the point; it may tell which ones it has passed."""
    args = (kept.file, point, answer)
    process = PROCESSES.Process(target=supervise, args=args, daemon=True)
    process.start()
    return process


# -- in the other process ------------------------------------------------------------------


def supervise(file: Path, point: str | None, answer: Connection | None) -> None:
    """Supervise until told to stop or until death."""
    for name in STEPS:
        module, _, function = name.partition(":")
        tap(import_module(module), function)
    POINTS.arm(point)
    fleet = load_fleet(file, no_app_facts)
    supervisor = Supervisor(fleet, lambda: load_fleet(file, no_app_facts), lambda _event: None)
    asyncio.run(supervisor.run())
    if answer is not None:
        answer.send(list(POINTS.seen))


def tap(module: Any, name: str) -> None:
    """Let a function pass points on its way in and out, numbered by its calls."""
    original = getattr(module, name)
    calls: Counter[str] = Counter()

    @wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        POINTS.here(f"before {name} {calls[name]}")
        answer = original(*args, **kwargs)
        POINTS.here(f"after {name} {calls[name]}")
        return answer

    setattr(module, name, step)
