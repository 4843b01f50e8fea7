"""The proof: announcements, a moody service, workers that are killed, and what the tables hold.

python -m examples.announcements.run --seconds 60 --announcements 2000 --kill-every 2
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from examples.announcements.service import CATEGORIES, Service
from mulligan import Mulligan

ROOT = Path(__file__).parents[2]
WORKERS = 3
# The share of the time in which announcements come in.
SENDING = 0.8


class Crew:
    """Worker processes, of which one is killed now and then, and always replaced."""

    def __init__(self, env: dict[str, str], chance: random.Random, log: Path) -> None:
        self._env = env
        self._chance = chance
        self._log = log
        self._workers: list[subprocess.Popen[bytes]] = []
        self.killed = 0

    def fill(self) -> None:
        """Start what is missing."""
        self._workers = [worker for worker in self._workers if worker.poll() is None]
        command = [sys.executable, "-m", "mulligan", "worker", "examples.announcements.app:app"]
        while len(self._workers) < WORKERS:
            with self._log.open("ab") as log:
                self._workers.append(
                    subprocess.Popen(  # noqa: S603 - a command of our own making
                        command, cwd=ROOT, env=self._env, stdout=log, stderr=log
                    )
                )

    def kill_one(self) -> None:
        """SIGKILL: no farewell, no clean-up."""
        worker = self._chance.choice(self._workers)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self.killed += 1

    def stop(self) -> None:
        """Let all of them finish what they do."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait()


def main() -> int:
    """Run it; 1 if the tables do not hold what they must."""
    asked = arguments()
    service = Service(0, asked.seed)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANNOUNCEMENTS_STORE"] = asked.store or f"sqlite:///{folder}/announcements.db"
        os.environ["ANNOUNCEMENTS_SERVICE"] = f"http://127.0.0.1:{service.server_port}"
        # It reads its store from the environment, as its workers do.
        from examples.announcements.app import app, database, pipeline  # noqa: PLC0415

        database.create()
        crew = Crew(dict(os.environ), random.Random(asked.seed), Path(folder) / "log")

        before = dead(app)

        def send(numbers: range) -> None:
            app.enqueue_many([pipeline.call(number) for number in numbers])

        def done() -> int:
            """How many have come to their end: a record, or a dead letter."""
            return len({number for number, _ in database.records()}) + dead(app) - before

        killed, took = play(crew, send, done, asked)
        moods = dict(service.moods)
        found = [*judged("uploads", database.uploads(), asked.announcements)]
        found += judged("records", database.records(), asked.announcements)
        app.close()
    show(found, moods, killed, took)
    return 0 if all(right for *_, right in found) else 1


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="for how long workers are killed")
    parser.add_argument("--announcements", type=int, default=2000)
    parser.add_argument("--store", help="sqlite:///FILE or postgresql://…; a new file if absent")
    parser.add_argument("--kill-every", type=float, default=2, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def play(
    crew: Crew, send: Callable[[range], None], done: Callable[[], int], asked: argparse.Namespace
) -> tuple[int, float]:
    """Send announcements and kill workers for the time given; then let the rest be done."""
    began = time.monotonic()
    sent, kill_at = 0, asked.kill_every
    try:
        while sent < asked.announcements or done() < sent:
            now = time.monotonic() - began
            until = round(asked.announcements * min(1.0, now / (SENDING * asked.seconds)))
            send(range(sent, until))
            sent = until
            crew.fill()
            if kill_at <= now < asked.seconds:
                crew.kill_one()
                kill_at = now + asked.kill_every
            time.sleep(0.2)
    finally:
        crew.stop()
    return crew.killed, time.monotonic() - began


def dead(app: Mulligan) -> int:
    """How many jobs in the store failed for good."""
    stats = app.run(lambda: app.access.acall(lambda store: store.stats()))
    return sum(count for (_, status), count in stats.ended.items() if status == "failed")


def judged(table: str, rows: list[tuple[int, str]], announcements: int) -> list[tuple[Any, ...]]:
    """What a table holds, each with what it must hold."""
    times = Counter(number for number, _ in rows)
    wrong = sum(category != CATEGORIES[number % len(CATEGORIES)] for number, category in rows)
    errors = sum(category == "Error" for _, category in rows)
    said = [
        ("announcements", len(times), announcements),
        ("rows", len(rows), announcements),
        ('category "Error"', errors, 0),
        ("another wrong category", wrong - errors, 0),
    ]
    return [(table, what, is_, must, is_ == must) for what, is_, must in said]


def show(found: list[tuple[Any, ...]], moods: dict[str, int], killed: int, took: float) -> None:
    """The tables of what happened and of what came of it."""
    console = Console()
    around = Table("what went wrong", "times", title=f"{took:.0f} seconds")
    for mood in ("says Error", "times out", "breaks off"):
        around.add_row(f"the service {mood}", str(moods.get(mood, 0)))
    around.add_row("a worker is killed", str(killed))
    console.print(around)
    held = Table("table", "what it holds", "is", "must be", "", title="The database")
    for table, what, is_, must, right in found:
        held.add_row(table, what, str(is_), str(must), "✓" if right else "[red]✗[/red]")
    console.print(held)


if __name__ == "__main__":
    sys.exit(main())
