"""Work that holds the processor, on two processes, beside Celery's prefork pool and RQ; on Redis.

    python -m tests.databases run --stores redis -- python -m benchmarks.pools --rounds 3

First throughput: each peer in turn is given the same jobs, of about 20 ms of pure Python, and is
timed from the first that is done to the last. Then how long a coroutine of mulligan waits for its
start, while the worker is idle, and while both of its child processes compute all the time. Other
load on the machine changes all figures alike: compare those of one run. It empties its database
between peers, and so begins only with one that is empty.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from redis import Redis

from benchmarks.environments import MissingError, command_of

PEERS = ("mulligan", "celery", "rq")
JOB = 0.02


class Stand:
    """One peer on an empty database, with a folder for its notes."""

    def __init__(self, peer, url, loops, folder):
        command, variables = command_of(peer, node=False)
        self._command = [command[0], str(Path(command[1]).with_name("cpu_jobs.py"))]
        self._notes = Path(folder) / "notes"
        self._environment = {
            **os.environ,
            **variables,
            "BENCH_PEER": peer,
            "BENCH_URL": url,
            "BENCH_LOOPS": str(loops),
            "BENCH_FOLDER": str(folder),
        }

    def run(self, *arguments):
        """Run one command of the peer to its end."""
        subprocess.run([*self._command, *arguments], env=self._environment, check=True)

    def start(self, *arguments):
        """Start one that goes on beside."""
        return subprocess.Popen([*self._command, *arguments], env=self._environment)

    @contextmanager
    def worker(self):
        """The peer's worker, in a session of its own, ended with all that it has started."""
        process = subprocess.Popen(
            [*self._command, "worker"],
            env=self._environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def notes(self, what):
        """When each of these happened, by number."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        told = [line.split() for line in lines]
        return {int(number): float(at) for word, number, at in told if word == what}

    def wait(self, what, count, within=300):
        """Wait until so many have happened; when each did, in order."""
        until = time.monotonic() + within
        while len(found := self.notes(what)) < count:
            if time.monotonic() > until:
                raise SystemExit(f"only {len(found)} of {count} jobs were done in {within} s")
            time.sleep(0.1)
        return sorted(found.values())


def calibrated():
    """How many turns of the loop take as long as a job should, as things are now."""
    turns, began = 100_000, time.perf_counter()
    total = 0
    for each in range(turns):
        total += each * each % 7
    return int(turns * JOB / (time.perf_counter() - began))


def throughput(peer, url, loops, jobs):
    """Jobs a second, from the first that is done to the last."""
    Redis.from_url(url).flushdb()
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(peer, url, loops, folder)
        stand.run("enqueue", str(jobs))
        with stand.worker():
            done = stand.wait("done", jobs)
    return (jobs - 1) / (done[-1] - done[0])


def pick_up(url, loops, count, *, busy):
    """The waits of coroutines for their start, in milliseconds: half, and all but one in 100."""
    Redis.from_url(url).flushdb()
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand("mulligan", url, loops, folder)
        stand.run("enqueue", "20000" if busy else "2")
        with stand.worker():
            stand.wait("done", 2)
            stand.run("pick-up", str(count))
            stand.wait("start", count)
        asked, started = stand.notes("asked"), stand.notes("start")
    waits = sorted(started[number] - at for number, at in asked.items())
    return {
        "p50": round(1000 * median(waits), 2),
        "p99": round(1000 * waits[int(len(waits) * 0.99)], 2),
    }


def main():
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default=os.environ.get("MULLIGAN_TEST_REDIS_URL"))
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pick-ups", type=int, default=500)
    options = parser.parse_args()
    url = options.url
    if url is None or (kept := Redis.from_url(url).dbsize()):
        raise SystemExit(
            "no Redis is named; give --url"
            if url is None
            else f"{url} has {kept} keys, which would be deleted; give --url with an empty database"
        )
    loops = calibrated()
    rates = {peer: [] for peer in PEERS}
    for _ in range(options.rounds):
        for peer in PEERS:
            try:
                rates[peer].append(throughput(peer, url, loops, options.jobs))
            except MissingError as error:
                print(error, file=sys.stderr)
    of = {peer: round(median(found), 1) for peer, found in rates.items() if found}
    others = PEERS[1:] if "mulligan" in of else ()
    idle = pick_up(url, loops, options.pick_ups, busy=False)
    busy = pick_up(url, loops, options.pick_ups, busy=True)
    Redis.from_url(url).flushdb()
    found = {
        "loops": loops,
        "jobs_per_second": of,
        "mulligan_to": {peer: round(of["mulligan"] / of[peer], 2) for peer in of if peer in others},
        "pick_up_ms": {
            "idle": idle,
            "busy": busy,
            "p99_ratio": round(busy["p99"] / idle["p99"], 2),
        },
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
