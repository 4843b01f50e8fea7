"""A provider that allows so many calls a second, and how many of ours it refuses.

    python -m benchmarks.provider [STORE] [--jobs 2000] [--rate 400]

A server of this machine counts calls, and answers 429 with Retry-After: 1 to those beyond its rate
in any second. Two worker processes in two regions run jobs that call it once each: first under a
limit of 5 % less than the provider's rate; then without one, where the first 429 pauses all. Told
are the calls, how many were refused, and how many of these after the first 429 was answered.

The provider counts by the time at which calls reach it, and they take longer or shorter to get
there. So the limit is a bucket that is filled evenly, `--burst` calls deep: in any second it lets
fewer start than the provider allows, and what is left between the two is for calls that come late.
With `--burst 0` it is a window, which may let all calls of a second start at once.
"""

import argparse
import http.client
import os
import signal
import subprocess
import sys
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

from benchmarks.limits import STORES, place
from mulligan import Delays, Mulligan, Retry, RetryAfter

ROOT = Path(__file__).parent.parent
BELOW = 0.95
PAUSE = 1.0
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def make(url, rate, burst):
    """The app: under a rate, or with nothing but the pause."""
    made = Mulligan(url)
    if rate:
        made.limit("provider", rate=rate, per=1, burst=burst or None)
    else:
        made.limit("provider", rate=1_000_000, per=1, pause_on_retry_after=True)

    @made.task(name="call", limits="provider", retry=Retry(1000, Delays((0,))))
    def call(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            if answer.status == http.client.TOO_MANY_REQUESTS:
                raise RetryAfter(float(answer.headers["Retry-After"]))
        finally:
            connection.close()

    return made


app = make(
    os.environ.get("MULLIGAN_BENCH_URL", "memory://"),
    int(os.environ.get("MULLIGAN_BENCH_RATE", "0")),
    int(os.environ.get("MULLIGAN_BENCH_BURST", "0")),
)


class Provider(ThreadingHTTPServer):
    """Answers so many calls in any second."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, rate):
        super().__init__(("127.0.0.1", 0), Handler)
        self.rate = rate
        self.lock = Lock()
        self.served = deque()
        self.answers = []

    def allows(self):
        """Count a call; whether it is one of those that are allowed."""
        with self.lock:
            now = time.monotonic()
            while self.served and self.served[0] <= now - 1:
                self.served.popleft()
            allowed = len(self.served) < self.rate
            if allowed:
                self.served.append(now)
            self.answers.append((now, allowed))
            return allowed


class Handler(BaseHTTPRequestHandler):
    """Says 200 or 429."""

    def do_GET(self):
        """Answer a call."""
        allowed = self.server.allows()
        self.send_response(200 if allowed else 429)
        if not allowed:
            self.send_header("Retry-After", f"{PAUSE:g}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_words):
        """Nothing."""


def main():
    """Call with a limit and without, and print what was refused."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", nargs="?", default="sqlite", choices=STORES[1:])
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--rate", type=int, default=400)
    parser.add_argument("--burst", type=int, default=4)
    options = parser.parse_args()
    print(f"{'':30}{'calls':>8}{'refused':>9}{'after the first 429':>21}{'seconds':>9}")
    for name, rate in (("a limit 5 % below", int(options.rate * BELOW)), ("the pause alone", 0)):
        answers = played(options, rate)
        refused = [at for at, allowed in answers if not allowed]
        taught = [at for at in refused if at > refused[0] + PAUSE / 2]
        spent = answers[-1][0] - answers[0][0]
        print(f"{name:30}{len(answers):8}{len(refused):9}{len(taught):21}{spent:9.1f}", flush=True)


def played(options, rate):
    """Every call as the provider saw it."""
    provider = Provider(options.rate)
    Thread(target=provider.serve_forever, daemon=True).start()
    url = place(options.store)
    client = make(url, rate, options.burst)
    client.configure()
    call = client.tasks["call"].call
    jobs = client.enqueue_many(call(provider.server_port) for _ in range(options.jobs))
    environment = os.environ | {
        "MULLIGAN_BENCH_URL": url,
        "MULLIGAN_BENCH_RATE": str(rate),
        "MULLIGAN_BENCH_BURST": str(options.burst),
    }
    command = [sys.executable, "-m", "mulligan", "worker", "benchmarks.provider:app"]
    command += ["--log-level", "error", "--region"]
    workers = [
        subprocess.Popen([*command, region], env=environment, cwd=ROOT, **quiet)
        for region in ("east", "west")
    ]
    try:
        for job in jobs:
            job.result(timeout=300)
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
    client.close()
    provider.shutdown()
    return provider.answers


if __name__ == "__main__":
    main()
