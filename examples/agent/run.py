"""The proof: an agent whose worker is killed whenever a call was billed and is not recorded.

python -m examples.agent.run --turns 12 --kills 10
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from examples.agent.service import Ledger, Service

ROOT = Path(__file__).parents[2]
JOB = "agent"


class Executioner:
    """Keeps a worker running, and kills it after each second bill until it has done so often."""

    def __init__(self, kills: int) -> None:
        self._left = kills
        self._bills = 0
        self._worker: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.killed = 0

    def start(self) -> None:
        """Start a worker."""
        command = [sys.executable, "-m", "mulligan", "worker", "examples.agent.app:app"]
        self._worker = subprocess.Popen(  # noqa: S603 - a command of our own making
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def billed(self) -> None:
        """A call was billed, and nobody has the answer yet."""
        with self._lock:
            self._bills += 1
            if self._bills % 2 == 0 and self._left and self._worker is not None:
                self._left -= 1
                self.killed += 1
                self._worker.kill()
                self._worker.wait()
                self.start()

    def stop(self) -> None:
        """End the last worker."""
        if self._worker is not None:
            self._worker.terminate()
            self._worker.wait()


class Seen(NamedTuple):
    """What came of it."""

    answer: str
    steps: int
    attempts: int
    killed: int
    ledger: Ledger


def main() -> int:
    """Have a question answered, and look at the bill."""
    asked = arguments()
    executioner = Executioner(asked.kills)
    service = Service(executioner.billed)
    with tempfile.TemporaryDirectory() as home:
        os.environ["AGENT_STORE"] = asked.store or f"sqlite:///{home}/jobs.db"
        os.environ["AGENT_SERVICE"] = service.url
        from examples.agent.app import answer, app  # noqa: PLC0415 - by then it has its store

        app.purge([JOB])
        executioner.start()
        try:
            job = answer.using(id=JOB).enqueue("What is a mulligan?", asked.turns)
            said = job.result(timeout=300)
            steps, attempts = len(job.records().steps), len(job.history()) + 1
        finally:
            executioner.stop()
            app.purge([JOB])
            app.close()
            service.close()
    seen = Seen(said, steps, attempts, executioner.killed, service.ledger)
    return 0 if shown(seen, 2 * asked.turns + 1, asked.kills) else 1


def shown(seen: Seen, steps: int, kills: int) -> bool:
    """Print the ledger; whether it is right. A busy machine may lose a lease that nobody killed."""
    out = Console()
    out.print(seen.answer)
    told = Table("", "is", "must be", "")
    asked = sum(seen.ledger.asked.values())
    rows: list[tuple[str, int, int, bool]] = [
        ("steps recorded", seen.steps, steps, seen.steps == steps),
        ("steps billed", len(seen.ledger.billed), steps, len(seen.ledger.billed) == steps),
        ("bills", (bills := sum(seen.ledger.billed.values())), steps, bills == steps),
        ("workers killed", seen.killed, kills, seen.killed == kills),
        (
            "calls, those made again included, at least",
            asked,
            steps + kills,
            asked >= steps + kills,
        ),
        ("attempts, at least", seen.attempts, kills + 1, seen.attempts > kills),
    ]
    for what, found, must, right in rows:
        told.add_row(what, str(found), str(must), "✓" if right else "✗")
    out.print(told)
    return all(right for *_, right in rows)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="the store's URL; a SQLite file of its own if not given")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--kills", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
