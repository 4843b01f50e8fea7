"""One worker, six questions, the first fails once: when does its retry start?

python -m examples.headline     # three workers, one after the other, each for about 21 s

Attempts take 3 s and the backoff is 0.2 s: a tenth of the 30 s and 2 s of fairness.md.
"""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from mulligan import Exponential, Mulligan, Retry, current_job

STORE = "headline.db"
SERVICE = 3.0
NAMES = ("A-q1", "A-q2", "A-q3", "B-q1", "B-q2", "B-q3")
RUNS = (("retry-first", True), ("retry-first", False), ("fifo", True))

app = Mulligan(f"sqlite:///{STORE}")


@app.task(retry=Retry(3, Exponential(SERVICE / 15, 2, 60, "none")))
async def ask(name: str) -> float:
    """Take a while; the first attempt at A-q1 fails. The result is when the last attempt began."""
    began = time.time()
    await asyncio.sleep(SERVICE)
    if name == "A-q1" and current_job().attempt == 1:
        raise TimeoutError("the service did not answer")
    return began


def run(policy: str, *, hold: bool) -> None:
    """Run the six through one worker of one slot, and print when each of them started."""
    for leftover in Path().glob(f"{STORE}*"):
        if leftover.is_file():
            leftover.unlink()
    app.queue("default", policy=policy)
    app.configure()
    jobs = [ask.enqueue(name) for name in NAMES]
    options = ["--concurrency", "1", *(["--hold-through-backoff"] if hold else [])]
    print(f"mulligan worker examples.headline:app {' '.join(options)}    # policy {policy}")
    worker = subprocess.Popen(  # noqa: S603 - its own words
        [sys.executable, "-m", "mulligan", "worker", "examples.headline:app", *options],
        stderr=subprocess.DEVNULL,
    )
    try:
        began = {name: job.result(timeout=120) for name, job in zip(NAMES, jobs, strict=True)}
        failed = jobs[0].history()[0].started_at
    finally:
        worker.terminate()
        worker.wait()
    starts = [("A-q1", failed), *((n if n != "A-q1" else "A-q1 retry", began[n]) for n in NAMES)]
    starts.sort(key=lambda each: each[1])
    print("  " + ", ".join(f"{name} {at - failed:.1f}" for name, at in starts))
    app.close()


if __name__ == "__main__":
    for chosen, holds in RUNS:
        run(chosen, hold=holds)
