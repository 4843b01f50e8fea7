"""A worker's life over HTTP, and a write that is repeated, on every store."""

import tracemalloc
from functools import partial

import httpx
import pytest

from mulligan import Mulligan, Retry
from mulligan.core.errors import StoreUnavailableError
from mulligan.core.job import NewJob, encode
from mulligan.server.application import make_application
from mulligan.server.guard import Guard
from mulligan.server.idempotency import KEEP_UNANSWERED
from mulligan.server.service import Service
from tests.cli.command_line import claim, fail, new_job
from tests.server.conftest import good
from tests.store_kit import handle


@pytest.fixture
async def store(store_url, clock):
    """Each store in turn."""
    async with handle(store_url, clock) as opened:
        yield opened


@pytest.fixture
async def client(store):
    """A client of a server over it."""
    service = Service(store, Mulligan("memory://"), Guard(None), declares=False)
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
    done = {"worker": worker, "jobs": [first | {"result": {"sent": True}}]}
    for verdict in ("written", "already"):
        (answer,) = (await good(client.post("/worker/ack", json=done)))["jobs"]
        assert answer["verdict"] == verdict
    failed = {"worker": worker, "jobs": [second | {"reason": "busy"}]}
    (answer,) = (await good(client.post("/worker/nack", json=failed)))["jobs"]
    assert (answer["outcome"], answer["delay"]) == ("retry", 5.0)
    (answer,) = (await good(client.post("/worker/ack", json={"worker": worker, "jobs": [second]})))[
        "jobs"
    ]
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


@pytest.mark.parametrize("keeps_notes", [True, False], ids=["notes", "no-notes"])
async def test_a_key_protects_from_a_reply_that_was_lost(
    client, store, clock, monkeypatch, keeps_notes
):
    """The jobs are stored and nobody is told so: sent again, the request finds them."""
    headers = {"Idempotency-Key": "k"}
    jobs = [{"task": "send", "unique_key": None}, {"task": "send", "delay": 5}]
    enqueue = store.enqueue

    async def lose_the_reply(new):
        await enqueue(new)
        if not keeps_notes:
            monkeypatch.setattr(store, "note", away)
        raise StoreUnavailableError("the connection was lost")

    async def away(*_):
        raise StoreUnavailableError("nobody is there")

    with monkeypatch.context() as patched:
        patched.setattr(store, "enqueue", lose_the_reply)
        lost = await client.post("/api/jobs", json=jobs, headers=headers)
    assert lost.status_code == 503
    monkeypatch.undo()
    if not keeps_notes:  # as far as anybody knows, the request is still under way
        again = await client.post("/api/jobs", json=jobs, headers=headers)
        assert again.status_code == 409
        clock.advance(KEEP_UNANSWERED)
    again = await good(client.post("/api/jobs", json=jobs, headers=headers))
    assert [each["created"] for each in again] == [False, False]
    stored = (await good(client.get("/api/jobs")))["jobs"]
    assert sorted(job["id"] for job in stored) == sorted(each["id"] for each in again)
    third = await client.post("/api/jobs", json=jobs, headers=headers)
    assert (third.json(), third.headers["idempotency-replayed"]) == (again, "true")


async def test_what_lists_jobs_by_the_thousand_reads_none_of_their_bodies(client, store):
    """However large the bodies are: here they come to 20 MB."""
    body = encode({"task": "send", "args": ["x" * 200_000], "kwargs": {}, "retry": Retry(1)})
    jobs = [NewJob(f"j{n}", "mail", "send", body, delay=60 * (n % 2)) for n in range(100)]
    for start in range(0, len(jobs), 20):
        await store.enqueue(jobs[start : start + 20])
    claims = await claim(store, 50)
    await fail(store, claims[5:])
    del jobs, claims
    for path, told in (
        ("/api/delayed/hours", '"looked_at":50'),
        ("/api/dead", '"count":45'),
        ("/api/count?status=failed", '"count":45'),
        ("/api/overview", '"running"'),
    ):
        tracemalloc.start()
        try:
            answer = await client.get(path)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert told in answer.text, answer.text[:500]
        assert most < 4 << 20, (path, most)


async def test_a_page_ends_when_its_bodies_are_large(client, store, monkeypatch):
    """And the pages after it have the rest, each job once."""
    monkeypatch.setattr("mulligan.server.jobs_api.PAGE_BYTES", 32_000)
    body = encode({"task": "send", "args": ["x" * 1000], "kwargs": {}, "retry": Retry(1)})
    await store.enqueue([NewJob(f"j{n}", "mail", "send", body) for n in range(120)])
    found: list[str] = []
    pages = 0
    after: dict[str, str] = {}
    read = 0
    page_of = store.page

    async def counted(*asked, **more):
        nonlocal read
        page = await page_of(*asked, **more)
        read += sum(len(job.body) for job in page.jobs)
        return page

    monkeypatch.setattr(store, "page", counted)
    while pages == 0 or after:
        read = 0
        page = await good(client.get("/api/jobs", params={"limit": "1000"} | after))
        assert read <= 32_000 + len(body)
        assert page["partial"] is (page["after"] is not None)
        found += [job["id"] for job in page["jobs"]]
        after = {"after": page["after"]} if page["after"] else {}
        pages += 1
    assert pages > 1
    assert sorted(found) == sorted(f"j{n}" for n in range(120))


async def test_a_text_is_sought_in_so_many_jobs_a_request(client, store, monkeypatch):
    page = store.page
    monkeypatch.setattr(store, "page", partial(page, looks=3))
    await store.enqueue([new_job(f"j{n}") for n in range(7)])
    for each in await claim(store, 7):
        await fail(store, [each], "rare" if each.id == "j0" else "boom")
    after: dict[str, str] = {}
    answers = []
    while True:
        asked = {"text": "rare"} | after
        answers.append(await good(client.get("/api/jobs", params=asked)))
        if answers[-1]["after"] is None:
            break
        after = {"after": answers[-1]["after"]}
    assert [(len(each["jobs"]), each["partial"]) for each in answers] == [
        (0, True),
        (0, True),
        (1, False),
    ]


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
