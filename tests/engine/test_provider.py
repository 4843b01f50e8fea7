"""One 429 teaches the whole fleet: a real server, and two worker processes in two regions."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

import pytest

from tests.cli.command_line import process
from tests.engine.provider_app import make

APP = "tests.engine.provider_app:app"
WAIT = 5
REFUSED = 3
JOBS = 10

pytestmark = pytest.mark.prove


class Provider(ThreadingHTTPServer):
    """Refuses one call, and says for how long it wants to hear nothing."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = Lock()
        self.arrivals: list[float] = []
        # When it was told to come back, and from when on it may.
        self.refusals: list[tuple[float, float]] = []


class Handler(BaseHTTPRequestHandler):
    """Answers 200, or 429 with a Retry-After."""

    server: Provider

    def do_GET(self) -> None:
        """Count the call, and answer it."""
        with self.server.lock:
            now = time.monotonic()
            self.server.arrivals.append(now)
            refused = len(self.server.arrivals) == REFUSED
            if refused:
                self.server.refusals.append((now, now + WAIT))
        self.send_response(429 if refused else 200)
        if refused:
            self.send_header("Retry-After", str(WAIT))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_no_worker_calls_before_the_provider_wants_to_be_called(provider, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = make(url)
    app.configure()
    address = f"http://127.0.0.1:{provider.server_port}/"
    jobs = app.enqueue_many([app.tasks["call"].call(address) for _ in range(JOBS)])
    with ExitStack() as stack:
        for region in ("US", "EU"):
            options = ("-r", region, "-c", "4", "--log-level", "error")
            stack.enter_context(process("worker", APP, *options, TEST_STORE=url))
        assert [job.result(timeout=120) for job in jobs] == [200] * JOBS
    app.close()
    assert len(provider.arrivals) == JOBS + len(provider.refusals)
    [(told, from_then)] = provider.refusals
    assert [at - told for at in provider.arrivals if told < at < from_then] == []
