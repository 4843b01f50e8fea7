"""Passwords, tokens and keys are shown nowhere: each is a canary, and all output is searched."""

import asyncio
import gc
import logging
import socket
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from mulligan import InvalidError, Mulligan, StoreError
from mulligan.app.app_store import KEYS_VARIABLE
from mulligan.cli import COMMANDS
from mulligan.server.application import make_application
from mulligan.server.guard import Guard
from mulligan.server.redaction import Redaction
from mulligan.server.routes import ROUTES
from mulligan.server.service import Service
from mulligan.server.tokens import read_tokens
from mulligan.stores import make_store, redact
from tests.cli.command_line import APP, process, run

CANARY = "tweety-bird-canary-0123456789abcdef"
NOWHERE = "127.0.0.1:1"
# Nobody answers there, or the URL is wrong in some way.
URLS = [
    f"redis://me:{CANARY}@{NOWHERE}/0",
    f"redis://:{CANARY}@{NOWHERE}/0",
    f"rediss://me:{CANARY}@{NOWHERE}/0",
    f"redis://{NOWHERE}/0?password={CANARY}",
    f"redis://me:{CANARY}@127.0.0.1:port/0",
    f"redis://me:{CANARY}@[bad",
    f"redis://me:{CANARY}@{NOWHERE}/0?nonsense=1",
    f"redis://me:{CANARY}@{NOWHERE}/zero",
    f"postgresql://me:{CANARY}@{NOWHERE}/db?connect_timeout=2",
    f"postgresql://{NOWHERE}/db?user=me&password={CANARY}&connect_timeout=2",
    f"postgresql://me:{CANARY}@{NOWHERE}/db?nonsense=1",
    f"postgresql://me:{CANARY}@127.0.0.1:port/db",
    f"mongodb://me:{CANARY}@{NOWHERE}/db?serverSelectionTimeoutMS=10",
    f"mongodb://me:{CANARY}@{NOWHERE}/db?nonsense=1&serverSelectionTimeoutMS=10",
    f"mongodb://me:{CANARY}@127.0.0.1:port/db",
    f"mongodb://me:{CANARY}@{NOWHERE}/db?authMechanism=none&serverSelectionTimeoutMS=10",
    f"mysql://me:{CANARY}@{NOWHERE}/db",
    f"http://me:{CANARY}@{NOWHERE}",
    f"sqlite:///nowhere/jobs.db?password={CANARY}",
    f"//me:{CANARY}@{NOWHERE}",
]
# Every command, as it is used on a store.
ON_A_STORE = {
    "housekeep": [],
    "serve": ["--port", "0"],
    "status": [],
    "top": [],
    "queues": [],
    "tasks": [],
    "workers": [],
    "watch": ["j"],
    "metrics": [],
    "job": ["j"],
    "gather": ["j"],
    "schedules": ["list"],
    "limits": ["list"],
    "fairness": ["q"],
    "jobs": [],
    "explain": ["j"],
    "dead": ["list"],
    "cancel": ["j"],
    "pause": ["q"],
    "resume": ["q"],
    "drain": ["w"],
    "doctor": [],
    "migrate": [],
    "settings": [],
    "history": [],
    "bench": ["--quick"],
}
# These go on for long where there is a store: they are tried where there is none, above and below.
UNENDING = {"bench", "serve", "housekeep", "top"}
# These take an app or a file, or make a store of their own.
OTHERS = {"worker", "dev", "enqueue", "supervise", "copy", "bridge", "demo", "simulate"}
KEYS = {KEYS_VARIABLE: CANARY, "MULLIGAN_TOKEN": CANARY}


@pytest.fixture(autouse=True)
def swept():
    """Nothing is left for later tests: a driver forgets a socket that it was still connecting."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def searched(*arguments: str, **environment: str) -> None:
    result = run(*arguments, **KEYS, **environment)
    assert CANARY not in result.output, (arguments, result.output)
    assert CANARY[:12] not in result.output, (arguments, result.output)
    failed = result.exception is not None and not isinstance(result.exception, SystemExit)
    assert not failed, (arguments, repr(result.exception))


def test_every_command_is_tried():
    assert set(COMMANDS) == set(ON_A_STORE) | OTHERS


@pytest.mark.filterwarnings("ignore::UserWarning")  # a driver's, on options that it does not know
@pytest.mark.parametrize("url", URLS)
def test_no_command_shows_the_password_of_its_store(url):
    for command, arguments in ON_A_STORE.items():
        if command != "settings":  # it opens no store
            searched(command, *arguments, "--store", url)
    searched("status", MULLIGAN_STORE=url)
    searched("status", "--json", "--store", url)
    searched("copy", url, "memory://")
    searched("copy", "memory://", url)
    searched("copy", url, url)
    for system in ("celery", "rq"):
        searched("bridge", system, APP, "--from", url)


@pytest.mark.parametrize("command", sorted(ON_A_STORE))
def test_no_command_shows_keys_or_tokens_of_its_environment(command):
    if command not in UNENDING:
        searched(command, *ON_A_STORE[command], MULLIGAN_APP=APP)
    searched(command, *ON_A_STORE[command], "--help")
    searched(command, *ON_A_STORE[command], "--nonsense")


def test_no_process_logs_a_secret(tmp_path):
    app = tmp_path / "shop.py"
    app.write_text(
        "from mulligan import Mulligan\n"
        f"app = Mulligan('redis://me:{CANARY}@{NOWHERE}/0', signing_keys=['{CANARY}'])\n"
        "@app.task\ndef pay(): ...\n"
        f"broken = Mulligan('mysql://me:{CANARY}@h/0')\n"
    )
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(
        f'[fleet]\nname = "f"\nstate = "{tmp_path}/state"\n'
        f'[kinds.w]\napp = "shop:app"\nenv = {{ SECRET_TOKEN = "{CANARY}" }}\n'
    )
    here: dict[str, str] = {**KEYS, "PYTHONPATH": f"{tmp_path}"}
    url = f"redis://me:{CANARY}@{NOWHERE}/0"
    for command in (
        ["worker", "shop:app", "--log-level", "debug"],
        ["worker", "shop:broken"],
        ["enqueue", "shop:app", "pay"],
        ["serve", "shop:app", "--port", "0"],
        ["housekeep", "--store", url],
        ["doctor", "shop:app"],
        ["supervise", str(fleet), "--check"],
        ["supervise", str(fleet), "--nonsense"],
    ):
        with process(*command, **here) as it:
            said, _ = it.communicate(timeout=60)
        assert CANARY[:12] not in said, (command, said)
        assert it.returncode != 0 or "--check" in command, (command, said)


def test_urls_are_shown_without_what_is_secret_in_them():
    for url in URLS:
        assert CANARY not in redact(url)
    for name in ("password", "sslpassword", "passwd", "pass", "secret", "token", "access_key"):
        assert CANARY not in redact(f"redis://h/0?{name}={CANARY}&prefix=p"), name
    assert redact("redis://h/0?prefix=p") == "redis://h/0?prefix=p"


async def open_and_close(url: str) -> None:
    store = make_store(url)
    try:
        async with asyncio.timeout(60):
            await store.open()
    finally:
        await store.close()


@pytest.mark.filterwarnings("ignore::UserWarning")  # a driver's, on options that it does not know
@pytest.mark.parametrize("url", [url for url in URLS if "://me" in url or "?" in url])
async def test_no_error_of_a_store_shows_its_password(url):
    with pytest.raises((StoreError, InvalidError)) as error:
        await open_and_close(url)
    seen: BaseException | None = error.value
    while seen is not None:
        assert CANARY not in str(seen), repr(seen)
        seen = None if seen.__suppress_context__ else seen.__cause__ or seen.__context__
    if hasattr(error.value, "__notes__"):
        assert CANARY not in str(error.value.__notes__)


@pytest.mark.parametrize("url", URLS)
def test_an_app_shows_no_password_of_its_own(url):
    app = Mulligan(url, signing_keys=[CANARY])
    for shown in (repr(app), app.shown_url, str(app.keys), repr(app.keys), repr(app.access)):
        assert CANARY not in shown


# -- the server --------------------------------------------------------------------------------


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"read {CANARY}-read\noperate {CANARY}-operate\nworker {CANARY}-worker\n")
    path.chmod(0o600)
    return path


async def test_no_answer_of_a_server_shows_a_secret(token_file, caplog):
    caplog.set_level(logging.DEBUG)
    app = Mulligan("memory://", signing_keys=[CANARY])
    store = app.make_store()
    app.url = f"redis://me:{CANARY}@{NOWHERE}/0?password={CANARY}"
    guard = Guard(read_tokens(token_file))
    service = Service(store, app, guard, declares=True, redaction=Redaction((), app.tasks))
    transport = httpx.ASGITransport(make_application(service), raise_app_exceptions=False)
    answers: list[httpx.Response] = []
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for row in ROUTES:
            if row.media_type == "text/event-stream":
                continue
            path = row.path.replace("{", "").replace("}", "")
            for role in ("read", "operate", "worker", "wrong"):
                headers = {"Authorization": f"Bearer {CANARY}-{role}"}
                answers.append(await client.request(row.method, path, headers=headers))
            answers.append(await client.request(row.method, f"{path}?token={CANARY}"))
    for answer in answers:
        about = answer.text + str(answer.headers)
        assert CANARY not in about.replace(f"?token={CANARY}", ""), answer.request.url
    ours = [line for line in caplog.messages if not line.startswith("HTTP Request")]
    assert CANARY not in "".join(ours)


async def test_a_server_whose_store_fails_shows_no_secret(token_file, caplog, monkeypatch):
    app = Mulligan("memory://")
    store: Any = app.make_store()

    async def away(*_arguments: object, **_options: object) -> None:
        raise ConnectionError(f"redis://me:{CANARY}@{NOWHERE}/0 refused password={CANARY}")

    for name in ("stats", "get", "page", "facts"):
        monkeypatch.setattr(store, name, away)
    service = Service(store, app, Guard(None), declares=False)
    transport = httpx.ASGITransport(make_application(service), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path in ("/api/overview", "/api/status", "/api/jobs/a", "/api/jobs"):
            answer = await client.get(path)
            assert answer.status_code == 503
            assert CANARY not in answer.text
    assert CANARY not in caplog.text


# -- a token belongs to the server that it is for ------------------------------------------------


class Elsewhere(BaseHTTPRequestHandler):
    """A server that sends everybody on to itself under another name, and notes what it is told."""

    heard: list[str | None]

    def do_GET(self) -> None:
        self.heard.append(self.headers.get("Authorization"))
        if self.path.startswith("/else"):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")
        else:
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/else")  # type: ignore[attr-defined]
            self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Nothing."""


def test_a_token_does_not_follow_a_redirect():
    Elsewhere.heard = []
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        port = server.server_port
        searched("metrics", "--store", f"http://127.0.0.1:{port}")
        server.shutdown()
        thread.join()
    assert Elsewhere.heard[0] == f"Bearer {CANARY}"
    assert Elsewhere.heard[1:] == [None] * (len(Elsewhere.heard) - 1)
    assert len(Elsewhere.heard) > 1


def test_nobody_listens_where_the_stores_of_these_tests_are():
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", 1)) != 0
