"""The server as a process: how it starts, refuses to start, streams and stops."""

import json
import signal
import socket
import subprocess
import sys
from functools import partial

import httpx
import pytest

from tests.cli.command_line import good, process, read_until, refused
from tests.server.process import LONGEST_WAIT, client_of, server

APP = "tests.server.apps:app"
get, post = partial(httpx.get, timeout=LONGEST_WAIT), partial(httpx.post, timeout=LONGEST_WAIT)
# A server that takes very long to finish what is under way.
LENIENT = (
    "from mulligan.server import serve; serve.STOP_WITHIN = 3600;"
    "from mulligan.cli import main; main()"
)

# Tells itself to stop in the moment in which it says that it is ready.
EAGER = """
import logging, os, signal
from mulligan.cli import main

class Eager(logging.Filter):
    def filter(self, record):
        if record.getMessage() == "ready for requests":
            os.kill(os.getpid(), signal.SIGTERM)
        return True

logging.getLogger("mulligan.server").addFilter(Eager())
main()
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


def test_it_serves_until_told_to_stop_and_exits_cleanly(url):
    with server("--store", url) as (address, it):
        assert get(f"{address}/api/status").json()["regions"] == {}
        it.send_signal(signal.SIGTERM)
        assert it.wait(LONGEST_WAIT) == 0


def test_several_servers_share_a_store(url):
    with server("--store", url) as (one, _), server("--store", url) as (two, _):
        post(f"{one}/api/jobs", json={"task": "a", "id": "j"}).raise_for_status()
        assert get(f"{two}/api/jobs/j").json()["status"] == "pending"


def test_being_told_to_stop_ends_streams(url):
    with server("--store", url) as (address, it), client_of(address) as client:
        worker = client.post("/worker/join", json={}).json()["worker"]
        with client.stream("GET", "/api/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            assert next(lines) == "event: snapshot"
            assert worker in next(lines)
            it.send_signal(signal.SIGTERM)
            assert "event: snapshot" not in list(lines)
        assert it.wait(LONGEST_WAIT) == 0


def test_changes_are_streamed_as_they_happen(url):
    with server("--store", url) as (address, _), client_of(address) as client:
        with client.stream("GET", "/api/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: snapshot"
            post(f"{address}/api/jobs", json={"task": "a", "queue": "mail"})
            while next(lines) != "event: change":
                pass
            change = json.loads(next(lines).removeprefix("data: "))
        assert change["queues"]["mail"]["fresh"] == 1
        assert "workers" not in change


def test_with_an_app_its_queues_are_configured_and_its_tasks_known(url):
    with server(APP, TEST_STORE=url) as (address, _):
        names = [task["name"] for task in get(f"{address}/api/tasks").json()["tasks"]]
        assert "ask" in names
        answer = post(f"{address}/api/jobs", json={"task": "nothing"})
        assert answer.status_code == 422


def test_a_read_only_server_does_not_make_a_store(url, tmp_path):
    said = refused(1, "serve", "--store", url, "--read-only", "--port", "0")
    assert "there is no file" in said


def test_a_port_that_is_taken_is_told_in_a_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused(1, "serve", "--store", "memory://", "--port", port)
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "needs tokens; give --token-file"),  # noqa: S104
        (["--token-file", "/no/such/file"], "token file /no/such/file cannot be read"),
        (["--port", "65536"], "65536 is not in the range"),
    ],
)
def test_what_is_wrong_at_the_start_is_told_in_a_line(arguments, words):
    assert words in refused(2, "serve", "--store", "memory://", *arguments)


def test_a_missing_extra_is_named():
    code = (
        "import sys; sys.modules['uvicorn'] = None; from mulligan.cli import cli;"
        "cli.main(['serve', '--store', 'memory://'])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode == 2
    (said,) = out.stderr.splitlines()
    assert said.endswith("run: pip install 'mulligan[server]'")


def test_neither_the_library_nor_the_help_pays_for_the_server():
    code = (
        "import sys, mulligan; from mulligan.cli import cli;"
        "cli.main(['--help'], standalone_mode=False);"
        "print([m for m in ('starlette', 'uvicorn', 'mulligan.server') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "[]"


def test_the_server_reclaims_what_a_dead_worker_held(url):
    with server("--store", url) as (address, _), client_of(address) as client:
        client.post("/api/jobs", json={"task": "a", "id": "j"})
        worker = client.post("/worker/join", json={"lease": 1}).json()["worker"]
        assert client.post("/worker/claim", json={"worker": worker}).json()["jobs"]
        other = client.post("/worker/join", json={}).json()["worker"]
        asked = {"worker": other, "wait": 30}
        (job,) = client.post("/worker/claim", json=asked).json()["jobs"]
        assert (job["id"], job["attempt"]) == ("j", 2)
        (lost,) = client.get("/api/jobs/j/history").json()["attempts"]
        assert (lost["type"], lost["worker"]) == ("Lost", worker)


def test_it_says_where_it_listens_and_who_may_ask(url, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("read " + "r" * 32)
    tokens.chmod(0o600)
    arguments = ["--store", url, "--port", "0", "--token-file", str(tokens), "--read-only"]
    good("migrate", "--store", url)
    with process("serve", *arguments) as it:
        said = "\n".join(read_until(it, "ready for requests"))
    assert "http://127.0.0.1:" in said
    assert "by token" in said
    assert "refused" in said
    assert "rrrr" not in said


def test_once_it_says_that_it_is_ready_it_can_be_told_to_stop(url):
    with process("serve", "--store", url, "--port", "0", program=("-c", EAGER)) as it:
        said, _ = it.communicate(timeout=LONGEST_WAIT)
    assert it.returncode == 0, said
    assert said.rstrip().endswith("stopped")


def test_the_app_may_have_set_its_log_up(url):
    arguments = ["--store", url, "--port", "0", "--log-format", "app"]
    code = "import logging, sys; logging.basicConfig(level='INFO', format='own: %(message)s');"
    program = ("-c", f"{code} from mulligan.cli import main; main()")
    with process("serve", *arguments, program=program) as it:
        assert read_until(it, "ready for requests")[-1] == "own: ready for requests"


def test_told_twice_it_stops_at_once(url):
    with (
        server("--store", url, program=("-c", LENIENT)) as (address, it),
        socket.create_connection(peer(address)) as slow,
    ):
        slow.sendall(b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n")
        slow.sendall(b"Content-Type: application/json\r\n\r\n{")  # and never the rest
        assert get(f"{address}/api/status").status_code == 200
        it.send_signal(signal.SIGTERM)
        while is_served(address):  # until it takes nobody in, and waits for the slow one
            pass
        it.send_signal(signal.SIGTERM)
        assert it.wait(LONGEST_WAIT) == 0


def is_served(address: str) -> bool:
    """Whether the server still answers."""
    try:
        return get(f"{address}/api/status").is_success
    except httpx.TransportError:
        return False


def peer(address: str) -> tuple[str, int]:
    """Where to connect to."""
    found = httpx.URL(address)
    return found.host, found.port or 80
