"""How a process of a kind is started: its command line, its variables, and a mark of both."""

import hashlib
import sys
from pathlib import Path

import msgspec

from mulligan.supervisor.fleet import Kind


class Recipe(msgspec.Struct, frozen=True):
    """A command, and the variables that it gets besides those of the supervisor."""

    command: tuple[str, ...]
    env: dict[str, str]

    @property
    def mark(self) -> str:
        """A digest of the recipe; a process with another mark is outdated."""
        ordered = msgspec.json.encode([self.command, sorted(self.env.items())])
        return hashlib.sha256(ordered).hexdigest()[:16]


def recipe_for(
    kind: Kind, number: int, supervisor: Path, orphan_grace: float, *, kept: bool
) -> Recipe:
    """How the process in this slot is started; `supervisor` is the supervisor's own lock file.

    A process that is `kept` stays when idle; others end by themselves.
    """
    name = f"{kind.name}-{number}"
    if kind.command:
        return Recipe(kind.command, {**kind.env, "MULLIGAN_SLOT": name})
    words = ["housekeep" if kind.service else "worker", *([kind.app] if kind.app else [])]
    if not kind.service:
        words += ["--region", kind.region]
        words += ["--queues", ",".join(kind.queues)] if kind.queues else []
        words += ["--concurrency", str(kind.concurrency)] if kind.concurrency else []
        words += ["--only", kind.only] if kind.only else []
        words += ["--idle-exit", f"{kind.idle_exit:g}"] if not kept else []
    words += ["--name", name, "--drain-timeout", f"{kind.drain_timeout:g}"]
    words += ["--supervisor", str(supervisor), "--orphan-grace", f"{orphan_grace:g}"]
    env = {**kind.env, "MULLIGAN_SLOT": name}
    if not kind.app:
        env["MULLIGAN_STORE"] = kind.store  # not an argument: it may hold a password
    return Recipe((sys.executable, "-m", "mulligan", *words), env)
