"""Retry-After, read from the shape of exceptions, and obeyed with the clients that people use."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.request import urlopen

import aiohttp
import httpx
import pytest
import requests

from mulligan import Delays, JobFailedError, Mulligan, Retry, Settings
from mulligan.engine.result_gate import asked_wait, seconds_in
from tests.engine.real_engine import engine, found

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


class AskedError(Exception):
    """With whatever attributes."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.__dict__.update(attributes)


class Response:
    """What is left of a response."""

    def __init__(self, headers: Any) -> None:
        self.headers = headers


def message(retry_after: str) -> Message:
    """Headers as urllib's HTTPError has them."""
    made = Message()
    made["Retry-After"] = retry_after
    return made


@pytest.mark.parametrize(
    ("attributes", "seconds"),
    [
        ({"retry_after": 7}, 7.0),
        ({"retry_after": 0.5}, 0.5),
        ({"retry_after": timedelta(minutes=1)}, 60.0),
        ({"retry_after": -3}, 0.0),
        ({"headers": {"Retry-After": "12"}}, 12.0),
        ({"response": Response({"retry-after": "12"})}, 12.0),
        ({"response": Response({"RETRY-AFTER": b"12"})}, None),
        ({"headers": message("9")}, 9.0),
        ({"retry_after": None, "response": Response({"Retry-After": "3"})}, 3.0),
        ({"retry_after": True}, None),
        ({"retry_after": float("nan")}, None),
        ({"response": Response({"Retry-After": "soon"})}, None),
        ({"response": Response(None), "headers": None}, None),
        ({"response": Response({})}, None),
        ({}, None),
    ],
)
def test_how_long_an_exception_asks_to_wait(attributes, seconds):
    assert asked_wait(AskedError(**attributes)) == seconds


def test_a_date_counts_from_when_the_response_was_sent():
    headers = {"Date": format_datetime(NOW, usegmt=True)}
    headers["Retry-After"] = format_datetime(NOW + timedelta(seconds=90), usegmt=True)
    assert asked_wait(AskedError(response=Response(headers))) == 90
    headers["Retry-After"] = format_datetime(NOW - timedelta(seconds=90), usegmt=True)
    assert asked_wait(AskedError(response=Response(headers))) == 0


def test_a_date_without_another_counts_from_now():
    later = datetime.now(UTC) + timedelta(hours=10)
    wait = seconds_in(format_datetime(later))
    assert wait is not None
    assert timedelta(hours=9) < timedelta(seconds=wait) <= timedelta(hours=10)


def test_a_cause_a_context_and_a_member_of_a_group_are_obeyed():
    asks = AskedError(retry_after=5)
    by_cause, by_context = RuntimeError(), RuntimeError()
    by_cause.__cause__ = by_context.__context__ = asks
    assert (asked_wait(by_cause), asked_wait(by_context)) == (5, 5)
    by_context.__suppress_context__ = True
    assert asked_wait(by_context) is None
    group = ExceptionGroup("two", [asks, ExceptionGroup("one", [AskedError(retry_after=9)])])
    assert asked_wait(group) == 9


def test_the_wait_is_the_longer_of_it_and_the_backoff_and_at_most_the_limit():
    app = Mulligan("memory://", settings=Settings(retry_after_limit=600))

    @app.task(retry=Retry(3, Delays((10,))))
    async def ask() -> None:
        raise AskedError(retry_after=waits.pop(0))

    waits = [2, 99, 86_400, 1]
    with app.testing() as t:
        job = ask.enqueue()
        t.drain()
        assert [each.delay for each in job.history()] == [10, 99, 600, None]
    assert Settings().retry_after_limit == 3600


class Handler(BaseHTTPRequestHandler):
    """Refuses the first request of each path, and notes when each arrived."""

    server: "Service"

    def do_GET(self) -> None:
        arrived = time.monotonic()
        client, status, form = self.path.strip("/").split("/")[:3]
        seen = self.server.arrivals.setdefault((client, status, form), [])
        seen.append(arrived)
        if len(seen) > 1:
            self.answer(200)
            return
        self.server.open_from[client, status, form] = arrived + WAIT
        # A date has whole seconds: the first one after the wait is over.
        at = datetime.now(UTC) + timedelta(seconds=WAIT + 1)
        said = str(WAIT) if form == "seconds" else format_datetime(at, usegmt=True)
        self.answer(int(status), ("Retry-After", said))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def answer(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for header in (("Content-Type", "application/json"), ("Content-Length", "2"), *headers):
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: Any) -> None:
        """Nothing."""


WAIT = 1


class Service(ThreadingHTTPServer):
    """A server that is busy at first."""

    daemon_threads = True
    arrivals: dict[tuple[str, str, str], list[float]]
    open_from: dict[tuple[str, str, str], float]


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service(("127.0.0.1", 0), Handler)
    made.arrivals, made.open_from = {}, {}
    Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


async def with_httpx(url: str) -> None:
    async with httpx.AsyncClient() as client:
        (await client.get(url)).raise_for_status()


async def with_requests(url: str) -> None:
    (await asyncio.to_thread(requests.get, url, timeout=10)).raise_for_status()


async def with_urllib(url: str) -> None:
    (await asyncio.to_thread(urlopen, url, timeout=10)).close()


async def with_aiohttp(url: str) -> None:
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        response.raise_for_status()


async def with_openai(url: str) -> None:
    import openai  # noqa: PLC0415 - slow, and only this test needs it

    async with openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0) as client:
        await client.models.list()


async def with_anthropic(url: str) -> None:
    import anthropic  # noqa: PLC0415 - slow, and only this test needs it

    async with anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0) as client:
        await client.messages.create(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "hello"}]
        )


CLIENTS = {
    "httpx": with_httpx,
    "requests": with_requests,
    "urllib": with_urllib,
    "aiohttp": with_aiohttp,
    "openai": with_openai,
    "anthropic": with_anthropic,
}


@pytest.mark.prove
async def test_no_request_of_any_client_arrives_before_the_service_said(service):
    app = Mulligan("memory://", retry=Retry(1, Delays((0,))))
    store = app._memory
    assert store is not None

    @app.task
    async def ask(client: str, status: str, form: str) -> None:
        url = f"http://127.0.0.1:{service.server_port}/{client}/{status}/{form}"
        await CLIENTS[client](url)

    cases = [
        (client, status, form)
        for client in CLIENTS
        for status in ("429", "503")
        for form in ("seconds", "date")
    ]
    async with engine(app, store):
        jobs = await app.aenqueue_many([ask.call(*case) for case in cases])
        for job in jobs:
            with contextlib.suppress(JobFailedError):  # a client may not like what the service says
                await job.aresult(timeout=60)
    assert service.arrivals.keys() == set(cases)
    for case, job in zip(cases, jobs, strict=True):
        first, second = service.arrivals[case]
        assert first < service.open_from[case] <= second, case
        [*_, attempt] = [each for each in await store.history(job.id) if each.delay is not None]
        assert attempt.delay is not None
        assert attempt.delay >= WAIT
        assert attempt.type.startswith(case[0])
        assert (await found(store, job.id)).retry_count == 1
