"""A stranger's shop, written from docs/concepts/long-jobs.md alone, with the commands it names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.prove

SHOP = """
import os
import signal
from pathlib import Path

from mulligan import Delays, LeaseLost, Mulligan, Retry, Settings, astep, current_job, step

app = Mulligan("sqlite:///jobs.db", settings=Settings(lease=2.0, beat=0.4))
SOON = Retry(max_retries=10, backoff=Delays((0,)))


def note(name: str) -> None:
    with open("runs", "a") as runs:
        runs.write(name + "\\n")


async def charge(order: int, key: str) -> dict[str, int]:
    note(f"charge {key}")
    return {"order": order, "receipt": 7}


def ship(order: int) -> str:
    if not Path("killed").exists():
        Path("killed").write_text("yes")
        os.kill(os.getpid(), signal.SIGKILL)
    note("ship")
    return f"parcel-{order}"


@app.task(retry=SOON)
async def fulfil(order: int) -> str:
    job = current_job()
    receipt = await astep("charge", charge, order, job.step_key("charge"))
    job.log(f"charged, receipt {receipt['receipt']}")
    job.progress(1, of=2, note="charged")
    return await astep("ship", ship, order)


@app.task(retry=Retry(0))
def import_rows(rows: int) -> int:
    job = current_job()
    first = job.last_checkpoint or 0
    for row in range(first, rows):
        job.progress(row, of=rows)
        if row % 10 == 0:
            job.checkpoint(row)
        if row == 25 and not Path("mended").exists():
            raise ConnectionError("row 25 is bad")
    return first
"""


def shell(folder: Path, *arguments: str, check: bool = True) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "mulligan", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not check or ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_a_killed_shop_charges_once_and_an_import_goes_on_from_its_checkpoint(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    shell(tmp_path, "enqueue", "shop:app", "fulfil", "3", "--id", "order")
    worker = [sys.executable, "-m", "mulligan", "worker", "shop:app"]
    first = subprocess.Popen(worker, cwd=tmp_path, stderr=subprocess.DEVNULL)
    assert first.wait(60) == -9
    shell(tmp_path, "enqueue", "shop:app", "import_rows", "50", "--id", "rows")
    second = subprocess.Popen(worker, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        watched = shell(tmp_path, "watch", "order", "--app", "shop:app")
        assert "step        charge" in watched
        assert "charged, receipt 7" in watched
        shell(tmp_path, "watch", "rows", "--app", "shop:app", check=False)
        dead = json.loads(shell(tmp_path, "job", "rows", "--app", "shop:app", "--json"))
        assert (dead["status"], dead["checkpoint"]["value"]) == ("failed", 20)
        (tmp_path / "mended").touch()
        shell(tmp_path, "dead", "replay", "rows", "--app", "shop:app")
        shell(tmp_path, "watch", "rows", "--app", "shop:app")
        done = json.loads(shell(tmp_path, "job", "rows", "--app", "shop:app", "--json"))
        assert (done["status"], done["result"]) == ("done", 20)
    finally:
        second.terminate()
        second.wait()
    runs = (tmp_path / "runs").read_text().splitlines()
    assert runs == ["charge order/charge", "ship"]
