"""A stranger's pictures, written from where-tasks-run.md alone, with the commands it names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.prove

PICTURES = """
import os
import time

from mulligan import Delays, JobFailedError, Mulligan, Retry, SoftTimeout, current_job

app = Mulligan("sqlite:///jobs.db")
ONCE = Retry(0)


@app.task(pool="process", queue="pictures", soft_timeout=0.5, timeout=60, retry=ONCE)
def resize(width: int = 640) -> str:
    done = 0
    try:
        while True:
            done += width
    except SoftTimeout:
        return "what was done by then"


@app.task(pool="process", queue="pictures", timeout=0.5, retry=ONCE)
def hang() -> None:
    time.sleep(600)


@app.task(pool="process", queue="pictures", max_memory="200MB", retry=ONCE)
def develop(megabytes: int) -> int:
    kept = bytearray(megabytes * 1_000_000)
    if megabytes > 200:
        time.sleep(600)
    return len(kept)


@app.task(pool="process", queue="pictures", retry=Retry(1, Delays((0,))))
def crash() -> int:
    if current_job().attempt == 1:
        os._exit(3)
    return os.getpid()


@app.task
async def beside() -> int:
    return os.getpid()


def failure(job) -> str:
    try:
        return f"ended well: {job.result(timeout=60)}"
    except JobFailedError as error:
        return f"{error.type}: {error}"


if __name__ == "__main__":
    import json

    running = {"hang": hang.enqueue(), "develop": develop.enqueue(500)}
    crashed, small = crash.enqueue(), develop.enqueue(50)
    soft, here = resize.enqueue(), beside.enqueue()
    print(json.dumps({
        "crashed": crashed.id,
        "pids": [crashed.result(timeout=60), here.result(timeout=60)],
        "small": small.result(timeout=60),
        "soft": soft.result(timeout=60),
        **{name: failure(job) for name, job in running.items()},
    }))
"""


def mulligan(folder: Path, *words: str) -> str:
    """What a command prints."""
    return subprocess.run(
        [sys.executable, "-m", "mulligan", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_tasks_that_compute_hang_grow_and_crash_do_so_apart(tmp_path):
    (tmp_path / "pictures.py").write_text(PICTURES)
    command = [sys.executable, "-m", "mulligan", "worker", "pictures:app", "--pool-size", "2"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log) as worker,
    ):
        try:
            said = json.loads(
                subprocess.run(
                    [sys.executable, "pictures.py"], cwd=tmp_path, stdout=-1, check=True
                ).stdout
            )
        finally:
            worker.terminate()
        assert worker.wait() == 0, (tmp_path / "log").read_text()

    child, loop = said["pids"]
    assert loop == worker.pid != child
    assert said["small"] == 50_000_000
    assert said["soft"] == "what was done by then"
    assert said["hang"].startswith("Timeout: ")
    assert said["develop"].startswith("MemoryExceeded: ")
    shown = mulligan(tmp_path, "job", said["crashed"], "--app", "pictures:app")
    assert "ProcessDied" in shown
    assert "exit code 3" in shown
    assert mulligan(tmp_path, "status", "--app", "pictures:app")
