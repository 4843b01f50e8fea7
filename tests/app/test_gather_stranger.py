"""A stranger's day of prices, written from flows.md, guide.md and cli.md alone."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.prove

PRICES = """
import json
import sys
from pathlib import Path

from mulligan import Fail, Failure, Mulligan, each

app = Mulligan("sqlite:///prices.db")
OUTAGE = Path("outage")


@app.task
def price(company: str) -> float:
    if company == "Ajax" and OUTAGE.exists():
        raise Fail("not listed")
    return float(len(company))


@app.task
def rounded(amount: float) -> int:
    return round(amount)


@app.task
def total(amounts: list[int | float]) -> float:
    return float(sum(amounts))


@app.task
def report(prices: list[float | Failure]) -> list[str]:
    return [each.reason if isinstance(each, Failure) else f"{each:.2f}" for each in prices]


@app.task
def index(document: str, version: int) -> None:
    with open("indexed", "a") as file:
        print(document, version, file=file)


if __name__ == "__main__":
    OUTAGE.touch()
    calls = [price.call("Acme"), price.call("Ajax")]
    day = app.gather(calls, report, return_exceptions=True)
    inside = app.gather_call([price.call("a"), (price | rounded).call("bbb")], total)
    nested = app.gather([(price | rounded).call("Acme"), inside], total)
    waiting = app.gather(calls, total, id="waits")
    calm = index.using(unique_key="report.txt", debounce=1, debounce_max=60)
    versions = [calm.enqueue("report.txt", version) for version in range(20)]
    hourly = index.using(unique_key="reminder", unique_for=3600)
    reminders = [hourly.enqueue("reminder", number) for number in range(3)]
    print(json.dumps({
        "day": day.result(timeout=60),
        "counts": [day.progress().done, day.progress().failed],
        "reasons": [failure.reason for failure in day.failures()],
        "nested": nested.result(timeout=60),
        "indexed": versions[0].result(timeout=60),
        "jobs": len({job.id for job in versions}),
        "created": [job.created for job in reminders],
    }))
"""


def mulligan(folder: Path, *words: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "mulligan", *words, "--store", "sqlite:///prices.db"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def worker(folder: Path) -> Iterator[None]:
    """A worker of the stranger's app."""
    command = [sys.executable, "-m", "mulligan", "worker", "prices:app"]
    with (
        (folder / "log").open("ab") as log,
        subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
        assert process.wait() == 0, (folder / "log").read_text()


def test_prices_are_gathered_whatever_fails_and_a_document_is_indexed_once(tmp_path):
    (tmp_path / "prices.py").write_text(PRICES)
    with worker(tmp_path):
        command = [sys.executable, "prices.py"]
        printed = subprocess.run(command, cwd=tmp_path, stdout=-1, check=True).stdout
        said = json.loads(printed)
        assert said["day"] == ["4.00", "not listed"]
        assert (said["counts"], said["reasons"]) == ([1, 1], ["not listed"])
        assert said["nested"] == 8.0
        assert said["jobs"] == 1
        assert said["created"] == [True, False, False]
        assert (tmp_path / "indexed").read_text().count("report.txt") == 1
        assert "report.txt 19" in (tmp_path / "indexed").read_text()

        seen = json.loads(mulligan(tmp_path, "gather", "waits", "--json"))
        assert (seen["members"], seen["failed"], seen["open"]) == (2, 1, 0)
        (tmp_path / "outage").unlink()
        mulligan(tmp_path, "gather", "waits", "replay")
        while json.loads(mulligan(tmp_path, "job", seen["id"], "--json"))["status"] != "done":
            time.sleep(0.1)
        assert json.loads(mulligan(tmp_path, "job", seen["id"], "--json"))["result"] == 8.0
