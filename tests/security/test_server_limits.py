"""What the server takes from a request, how much of it, and whom it believes."""

import asyncio
from typing import Any

import pytest
import uvicorn

from mulligan.server import serve
from mulligan.server.routes import ROUTES
from mulligan.server.tokens import Tokens, digest
from tests.server.conftest import good, refused

TOKEN = "r" * 32


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/jobs?limit=1001", None),
        ("/api/jobs?limit=0", None),
        ("/api/jobs?limit=1e9", None),
        (f"/api/jobs?text={'x' * 4001}", None),
        (f"/api/jobs?after={'9' * 501}", None),
        (f"/api/jobs?after={'9' * 400}", None),
        (f"/api/jobs?queue={'x' * 129}", None),
        (f"/api/jobs/{'x' * 129}", None),
        (f"/api/delayed/hours?queue={'x' * 129}", None),
        ("/api/jobs?limit=1&limit=2", None),
        ("/api/jobs?unknown=1", None),
        ("/api/jobs", [{"task": "a"}] * 1001),
        ("/api/jobs", {"task": "x" * 129}),
        ("/api/jobs", {"task": "a", "delay": 1e300}),
        ("/api/jobs", {"task": "a", "retry": {"max_retries": -1}}),
        ("/api/jobs/cancel", {"ids": ["a"] * 1001}),
        ("/api/jobs/purge", {"ids": []}),
        ("/worker/join", {"queues": ["q"] * 100_000}),
        ("/worker/join", {"concurrency": 10**9}),
        ("/worker/claim", {"worker": "w", "limit": 1001}),
        ("/worker/claim", {"worker": "w", "wait": 31}),
        ("/worker/heartbeat", {"worker": "w", "holding": [{"id": "a", "token": 1}] * 100_001}),
        ("/worker/ack", {"worker": "w", "jobs": [{"id": "a", "token": 1, "result": 1}] * 1001}),
        (
            "/worker/nack",
            {"worker": "w", "jobs": [{"id": "a", "token": 1, "reason": "x" * 10_000_000}]},
        ),
        ("/worker/snooze", {"worker": "w", "jobs": [{"id": "a", "token": 1, "delay": -1}]}),
    ],
)
async def test_no_parameter_is_without_a_bound(client, path, body):
    asked = client.get(path) if body is None else client.post(path, json=body)
    answer = await asked
    assert answer.status_code in (413, 422), answer.text[:200]
    assert len(answer.text) < 2000


async def test_a_body_that_does_not_arrive_in_time_is_refused(client):
    client.service.request_within = 0.05
    never = asyncio.Event()

    async def slow():
        yield b"{"
        await never.wait()

    await refused(client.post("/api/jobs", content=slow()), 400, "did not arrive within")


async def test_what_a_proxy_says_of_an_address_is_not_believed(serve):
    client = serve(client=("192.0.2.7", 1))
    for header in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Forwarded-Host"):
        asked = client.get("/api/status", headers={header: "127.0.0.1"})
        await refused(asked, 403, "192.0.2.7")


async def test_the_server_trusts_no_proxy_and_does_not_say_what_it_is(monkeypatch):
    said: dict[str, Any] = {}

    class Config(uvicorn.Config):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            said.update(options)
            raise InterruptedError

    monkeypatch.setattr(uvicorn, "Config", Config)
    from mulligan import Mulligan  # noqa: PLC0415 - beside its one use

    app = Mulligan("memory://")
    with pytest.raises(InterruptedError):
        await serve.run(
            app, app.make_store(), serve.ServerOptions(), None, None, declares=False  # type: ignore[arg-type]
        )  # fmt: skip
    assert said["proxy_headers"] is False
    assert said["server_header"] is False
    assert said["ws"] == "none"


async def test_a_token_counts_in_its_header_alone(serve):
    client = serve(tokens=Tokens({digest(TOKEN): frozenset({"read", "operate"})}))
    for name in ("token", "access_token", "authorization"):
        await refused(client.get(f"/api/status?{name}={TOKEN}"), 401)
        await refused(client.get("/api/status", headers={"Cookie": f"{name}={TOKEN}"}), 401)
    await good(client.get("/api/status", headers={"Authorization": f"Bearer {TOKEN}"}))


async def test_no_answer_sets_a_cookie(client):
    for row in ROUTES:
        if row.media_type != "text/event-stream":
            path = row.path.replace("{", "").replace("}", "")
            answer = await client.request(row.method, path, content=b"{}")
            assert "set-cookie" not in answer.headers, row.path


OPERATORS: list[Any] = [{"$gt": ""}, {"$ne": None}, ["a"], 7, None, True]


@pytest.mark.parametrize("value", OPERATORS, ids=repr)
async def test_a_document_is_no_name(client, value):
    """MongoDB would take it for an operator; no store is asked."""
    for path, body in (
        ("/api/jobs", {"task": value}),
        ("/api/jobs", {"task": "a", "id": value}),
        ("/api/jobs", {"task": "a", "queue": value}),
        ("/api/jobs/cancel", {"ids": [value]}),
        ("/api/jobs/purge", {"selection": {"status": "done", "queue": value}, "expected": 1}),
        ("/worker/claim", {"worker": value}),
        ("/worker/ack", {"worker": "w", "jobs": [{"id": value, "token": 1, "result": 1}]}),
        ("/worker/ack", {"worker": "w", "jobs": [{"id": "a", "token": {"$gt": 0}, "result": 1}]}),
        ("/worker/leave", {"worker": value}),
    ):
        if value is None and ("id" in body or "queue" in body):
            continue  # the field is absent
        await refused(client.post(path, json=body), 422)
    answer = await client.get("/api/jobs?queue[$ne]=a")
    assert answer.status_code == 422
