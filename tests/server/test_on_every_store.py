"""A worker's life over HTTP, and a write that is repeated, on every store."""

import httpx
import pytest

from mulligan import Mulligan
from mulligan.server.application import make_application
from mulligan.server.guard import Guard
from mulligan.server.service import Service
from tests.server.conftest import good
from tests.stores import handle


@pytest.fixture
async def client(store_url, clock):
    """A client of a server over each store in turn."""
    async with handle(store_url, clock) as store:
        service = Service(store, Mulligan(store_url), Guard(None), declares=False)
        transport = httpx.ASGITransport(make_application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as made:
            yield made


async def test_a_worker_claims_retries_and_finishes(client, clock):
    retry = {"max_retries": 1, "backoff": {"type": "delays", "seconds": [5]}}
    jobs = [{"task": "send", "id": name, "args": [name], "retry": retry} for name in ("a", "b")]
    await good(client.post("/api/jobs", json=jobs))
    worker = (await good(client.post("/worker/join", json={"region": "default"})))["worker"]
    asked = {"worker": worker, "limit": 10}
    claimed = (await good(client.post("/worker/claim", json=asked)))["jobs"]
    assert [(job["id"], job["args"]) for job in claimed] == [("a", ["a"]), ("b", ["b"])]
    first, second = [{"id": job["id"], "token": job["token"]} for job in claimed]
    done = {"jobs": [first | {"result": {"sent": True}}]}
    for verdict in ("written", "already"):
        (answer,) = (await good(client.post("/worker/ack", json=done)))["jobs"]
        assert answer["verdict"] == verdict
    failed = {"jobs": [second | {"reason": "busy"}]}
    (answer,) = (await good(client.post("/worker/nack", json=failed)))["jobs"]
    assert (answer["outcome"], answer["delay"]) == ("retry", 5.0)
    (answer,) = (await good(client.post("/worker/ack", json={"jobs": [second]})))["jobs"]
    assert answer["verdict"] in ("already", "stale")
    assert (await good(client.post("/worker/claim", json=asked)))["jobs"] == []
    clock.advance(5)
    (again,) = (await good(client.post("/worker/claim", json=asked)))["jobs"]
    assert (again["id"], again["token"], again["attempt"]) == ("b", second["token"] + 1, 2)
    shown = await good(client.get("/api/status/default"))
    assert shown["current_job"] == {"job_id": "b", "retry_count": 1, "is_retry": True}
    assert (await good(client.get("/api/jobs/a")))["result"] == {"sent": True}
    (attempt,) = (await good(client.get("/api/jobs/b/history")))["attempts"]
    assert (attempt["worker"], attempt["message"], attempt["delay"]) == (worker, "busy", 5.0)
    await good(client.post("/worker/leave", json={"worker": worker}))


async def test_a_repeated_key_is_answered_as_the_first_time(client):
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/api/jobs", json={"task": "send"}, headers=headers)
    again = await client.post("/api/jobs", json={"task": "send"}, headers=headers)
    assert again.status_code == 200
    assert again.json() == first.json()
    assert len((await good(client.get("/api/jobs")))["jobs"]) == 1


async def test_pages_counts_and_purges_reach_every_job(client):
    jobs = [{"task": "send", "id": f"j{n}"} for n in range(5)]
    await good(client.post("/api/jobs", json=jobs))
    await good(client.post("/api/jobs/cancel", json={"ids": [job["id"] for job in jobs]}))
    page = await good(client.get("/api/jobs?status=cancelled&limit=3"))
    rest = await good(client.get(f"/api/jobs?status=cancelled&after={page['after']}"))
    assert len(page["jobs"] + rest["jobs"]) == 5
    counted = await good(client.get("/api/count?status=cancelled"))
    asked = {"selection": {"status": "cancelled"}, "expected": counted["count"]}
    assert (await good(client.post("/api/jobs/purge", json=asked)))["changed"] == 5
