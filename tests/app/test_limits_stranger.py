"""A stranger's shop, written from docs/concepts/limits.md and fairness.md, with their commands."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.prove

SHOP = """
import time

from mulligan import Mulligan, current_job

app = Mulligan("sqlite:///shop.db")
app.limit("provider", concurrency=2)
app.limit("tokens", rate=100, per=3600)
app.limit("tenant:*", concurrency=1)
app.queue("default", weights={"acme": 3})


def note(*words: object) -> None:
    with open("notes", "a") as file:
        print(*words, time.monotonic(), file=file)


def run(*words: object) -> None:
    note("begin", *words)
    time.sleep(0.1)
    note("end", *words)


@app.task(limits="provider")
def call(number: int) -> None:
    run("provider")


@app.task(limits=lambda tenant, number: {f"tenant:{tenant}": 1})
def serve(tenant: str, number: int) -> None:
    run(tenant)


@app.task(limits={"tokens": 40})
def embed(number: int) -> None:
    current_job().spend("tokens", 12)
    run("tokens")


@app.task(fairness_key=lambda customer, number: customer)
def render(customer: str, number: int) -> None:
    note("render", customer)


if __name__ == "__main__":
    app.configure()
    app.enqueue_many(call.using(id=f"call-{n}").call(n) for n in range(5))
    app.enqueue_many(serve.call(tenant, n) for n in range(3) for tenant in ("a", "b"))
    app.enqueue_many(embed.using(id=f"embed-{n}").call(n) for n in range(4))
    app.enqueue_many(render.call("loud", n) for n in range(150))
    for customer in ("quiet", "acme"):
        app.enqueue_many(render.call(customer, n) for n in range(3))
"""


class Shop:
    """The stranger's folder, and what is typed there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(SHOP)
        subprocess.run([sys.executable, "shop.py"], cwd=folder, check=True)

    def type(self, *words: str) -> str:
        """What a command prints."""
        command = [sys.executable, "-m", "mulligan", *words, "--app", "shop:app"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def limit(self, name: str) -> dict[str, Any]:
        """A limit as it is listed."""
        listed = json.loads(self.type("limits", "list", "--json"))["limits"]
        return next(each for each in listed if each["name"] == name)

    def notes(self, *first: str) -> list[list[str]]:
        """What the tasks wrote that begins so, in order."""
        path = self.folder / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [words for line in lines if (words := line.split())[: len(first)] == [*first]]

    def most_at_once(self, what: str) -> int:
        """How many of these ran at a time."""
        began = [(float(at), 1) for *_, at in self.notes("begin", what)]
        ended = [(float(at), -1) for *_, at in self.notes("end", what)]
        running = most = 0
        for _, step in sorted(began + ended):
            running += step
            most = max(most, running)
        return most

    @contextmanager
    def worker(self) -> Iterator[None]:
        """A worker process."""
        command = [sys.executable, "-m", "mulligan", "worker", "shop:app", "-c", "4"]
        with (
            (self.folder / "log").open("ab") as log,
            subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log) as process,
        ):
            try:
                yield
            finally:
                process.terminate()


def until(is_so: Callable[[], bool]) -> None:
    """Wait for it; the test's own timeout ends what never comes."""
    while not is_so():
        time.sleep(0.1)


def test_what_the_pages_promise_holds_for_two_worker_processes(tmp_path):
    shop = Shop(tmp_path)
    keys = json.loads(shop.type("fairness", "default", "--json"))["keys"]
    shares = {each["key"]: each["share"] for each in keys}
    assert (shares["loud"], shares["quiet"], shares["acme"]) == (0.2, 0.2, 0.6)
    shop.type("fairness", "default", "--weight", "quiet=3")
    shop.type("limits", "pause", "provider", "3600")
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(shop.worker())
        until(lambda: len(shop.notes("render")) == 156 and len(shop.notes("end", "a")) == 3)
        until(lambda: len(shop.notes("end", "tokens")) == 2 and len(shop.notes("end", "b")) == 3)
        # The flood has delayed its own jobs.
        customers = [customer for _, customer, _ in shop.notes("render")]
        assert "loud" in customers[-30:]
        assert {"quiet", "acme"}.isdisjoint(customers[-30:])
        # A tenant has one job at a time, and the paused provider none.
        assert (shop.most_at_once("a"), shop.most_at_once("b")) == (1, 1)
        assert shop.notes("begin", "provider") == []
        assert shop.limit("provider")["waiting"] == 5
        assert "is paused for another" in shop.type("explain", "call-0")
        # Two of the four had tokens: their costs, and what they said afterwards that they spent.
        until(lambda: shop.limit("tokens")["used"] == 2 * (40 + 12))
        assert "which has room for 0 of its cost of 40" in shop.type("explain", "embed-3")
        shop.type("limits", "set", "tokens", "--rate", "500")
        until(lambda: len(shop.notes("end", "tokens")) == 4)
        shop.type("limits", "resume", "provider")
        until(lambda: len(shop.notes("end", "provider")) == 5)
        assert shop.most_at_once("provider") <= 2
