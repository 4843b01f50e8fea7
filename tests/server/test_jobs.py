"""Enqueueing over HTTP, and looking at jobs."""

import asyncio

import pytest

from mulligan.core.settings import Settings
from tests.cli.command_line import claim, fail, new_job
from tests.server.apps import app
from tests.server.conftest import good, refused


async def test_a_job_needs_a_task_alone(client, store):
    answer = await good(client.post("/api/jobs", json={"task": "send"}))
    assert answer["created"] is True
    job = await store.get(answer["id"])
    assert (job.task, job.queue, job.region, job.status) == (
        "send",
        "default",
        "*",
        "pending",
    )


async def test_options_are_those_of_using(client, store, clock):
    asked = {
        "task": "send",
        "args": [1, {"a": None}],
        "kwargs": {"b": 2.5},
        "queue": "mail",
        "region": "US",
        "priority": "urgent",
        "retry": {"max_retries": 3, "backoff": {"type": "delays", "seconds": [1, 2]}},
        "timeout": 30,
        "delay": 60,
        "unique_key": "k",
        "id": "j",
        "expires": 90,
        "keep": 60,
        "limits": {"c": 2},
        "fairness_key": "f",
    }
    await good(client.post("/api/jobs", json=asked))
    shown = await good(client.get("/api/jobs/j"))
    assert shown["due"] == clock() + 60
    assert shown["expires_at"] == clock() + 90
    assert shown["keep"] == 60
    assert (shown["queue"], shown["region"], shown["priority"]) == ("mail", "US", 2)
    assert (shown["unique_key"], shown["fairness_key"]) == ("k", "f")
    assert shown["limits"] == {"c": 2}
    body = shown["body"]
    assert (body["args"], body["kwargs"], body["timeout"]) == ([1, {"a": None}], {"b": 2.5}, 30)
    assert body["retry"]["max_retries"] == 3


async def test_an_array_is_stored_as_a_whole_and_answered_in_its_order(client, store):
    asked = [{"task": "send", "id": name} for name in ("a", "b", "a")]
    assert await good(client.post("/api/jobs", json=asked)) == [
        {"id": "a", "created": True},
        {"id": "b", "created": True},
        {"id": "a", "created": False},
    ]
    bad = [{"task": "send", "id": "c"}, {"task": "send", "delay": -1}]
    await refused(client.post("/api/jobs", json=bad), 422, "delay")
    assert await store.get("c") is None


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "`task`"),
        ({"task": ""}, "length >= 1"),
        ({"task": "x" * 129}, "length <= 128"),
        ({"task": "a\nb"}, "regex"),
        ({"task": "send", "quueue": "mail"}, "quueue"),
        ({"task": "send", "priority": "high"}, "'high'"),
        ({"task": "send", "region": "*x"}, "must not begin with '*'"),
        ({"task": "send", "retry": {"max_retries": -1}}, "must be 0 or more"),
        ({"task": "send", "retry": {"MaxRetries": 1}}, "; did you mean max_retries?"),
        ({"task": "send", "delay": 1, "run_after": "2030-01-01T00:00:00Z"}, "not both"),
        ({"task": "send", "args": "text"}, "array"),
        ([], "length >= 1"),
        ([{"task": "send"}] * 1001, "length <= 1000"),
    ],
)
async def test_what_breaks_a_rule_is_refused_with_the_rule(client, asked, words):
    await refused(client.post("/api/jobs", json=asked), 422, words)


async def test_a_job_may_be_pinned_to_its_region(client, store):
    asked = {"task": "ask", "region": "US", "pinned": True}
    answer = await good(client.post("/api/jobs", json=asked))
    assert (await store.get(answer["id"])).scope == "=US"
    status = await good(client.get("/api/status"))
    assert status["regions"]["US"]["queue_size"] == 1
    assert "=US" not in status["regions"]
    asked = {"task": "ask", "pinned": True}
    await refused(client.post("/api/jobs", json=asked), 422, "pinned=True needs the region")


@pytest.mark.parametrize("absent", [None, ""])
@pytest.mark.parametrize("declares", [True, False])
async def test_null_and_empty_text_are_absent(serve, store, declares, absent):
    client = serve(app=app) if declares else serve()
    texts = ("queue", "region", "priority", "retry", "unique_key", "id", "limits", "fairness_key")
    spans = ("timeout", "delay", "run_after", "unique_for", "debounce", "expires", "keep")
    asked = {"task": "ask", "kwargs": None, "args": ["why?"]} | dict.fromkeys(texts, absent)
    asked |= dict.fromkeys(spans)
    plain = {"task": "ask", "args": ["why?"]}
    jobs = [await good(client.post("/api/jobs", json=each)) for each in (asked, plain)]
    said, left_out = [await store.get(each["id"]) for each in jobs]
    same = ("body", "queue", "region", "priority", "unique_key", "limits", "fairness_key", "keep")
    for name in same:
        assert getattr(said, name) == getattr(left_out, name), name


async def test_a_payload_over_the_limit_is_refused(serve):
    client = serve(settings=Settings(payload_limit=1000))
    asked = {"task": "send", "args": ["x" * 1000]}
    await refused(client.post("/api/jobs", json=asked), 422, "more than the 1000 allowed")


async def test_with_an_app_the_arguments_are_checked_against_the_task(serve, store):
    client = serve(app=app)
    answer = await good(client.post("/api/jobs", json={"task": "ask", "args": ["why?"]}))
    assert (await store.get(answer["id"])).queue == "questions"
    await refused(client.post("/api/jobs", json={"task": "nothing"}), 422, "is not one of", "ask")
    await refused(client.post("/api/jobs", json={"task": "ask"}), 422, "cannot be called so")
    wrong = {"task": "ask", "args": ["why?"], "kwargs": {"limit": "two"}}
    await refused(client.post("/api/jobs", json=wrong), 422, "limit='two' is not int")


async def test_an_id_may_contain_a_slash(client, store):
    await store.enqueue([new_job("a/b"), new_job("a")])
    assert (await good(client.get("/api/jobs/a%2Fb")))["id"] == "a/b"
    assert (await good(client.get("/api/jobs/a%2Fb/explain")))["job_id"] == "a/b"
    await refused(client.get("/api/jobs/a/b"), 404, "no route")


async def test_a_job_that_is_not_stored_is_not_found(client):
    for path in ("/api/jobs/x", "/api/jobs/x/history", "/api/jobs/x/explain"):
        await refused(client.get(path), 404, "no job 'x' is stored")


async def test_history_lists_failed_attempts(client, store):
    await store.enqueue([new_job("a")])
    await fail(store, await claim(store, 1), "smtp://me:secret@host is away")
    (attempt,) = (await good(client.get("/api/jobs/a/history")))["attempts"]
    assert (attempt["number"], attempt["type"], attempt["delay"]) == (1, "ValueError", None)
    assert attempt["message"] == "smtp://me:***@host is away"


async def test_explain_says_why_in_one_sentence(client, store):
    await store.enqueue([new_job("a", delay=60)])
    said = await good(client.get("/api/jobs/a/explain"))
    assert said == {"job_id": "a", "explanation": "Delayed; it is due in 60 s, in any region."}


async def test_pages_lead_from_one_to_the_next(client, store):
    await store.enqueue([new_job(f"j{n}") for n in range(5)])
    first = await good(client.get("/api/jobs", params={"limit": 2}))
    second = await good(client.get("/api/jobs", params={"limit": 3, "after": first["after"]}))
    found = [job["id"] for page in (first, second) for job in page["jobs"]]
    assert sorted(found) == [f"j{n}" for n in range(5)]
    assert second["after"] is None


async def test_pages_are_filtered_by_every_field(client, store):
    await store.enqueue([new_job("a"), new_job("b", queue="other", region="US")])
    await fail(store, await claim(store, 1), "disk full")
    for wanted, ids in (
        ({"status": "failed"}, ["a"]),
        ({"queue": "other"}, ["b"]),
        ({"region": "US"}, ["b"]),
        ({"task": "send"}, ["b", "a"]),
        ({"text": "disk"}, ["a"]),
        ({"text": "disk", "queue": "other"}, []),
        ({"queue": "null"}, []),
    ):
        page = await good(client.get("/api/jobs", params=wanted))
        assert [job["id"] for job in page["jobs"]] == ids, wanted


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", ">= 1"),
        ("limit=1001", "<= 1000"),
        ("limit=many", "int"),
        ("status=lost", "lost"),
        ("after=nonsense", "leave it out"),
        ("quueue=mail", "quueue"),
        ("queue=a&queue=b", "given twice"),
        ("text=%00", "regex"),
    ],
)
async def test_a_query_that_does_not_fit_is_refused(client, query, words):
    await refused(client.get(f"/api/jobs?{query}"), 422, words)


async def test_dead_letters_that_differ_in_numbers_are_one_group(client, store):
    await store.enqueue([new_job(f"j{n}") for n in range(4)])
    for message in ("timed out after 31.2 s", "timed out after 7 s", "timed out after 9 s", "no"):
        await fail(store, await claim(store, 1), message)
    shown = await good(client.get("/api/dead"))
    assert (shown["looked_at"], shown["complete"]) == (4, True)
    assert [(each["error"], each["count"]) for each in shown["groups"]] == [
        ("ValueError: timed out after # s", 3),
        ("ValueError: no", 1),
    ]
    assert sorted(shown["groups"][0]["ids"]) == ["j0", "j1", "j2"]
    assert (await good(client.get("/api/dead?queue=none")))["groups"] == []


async def test_of_many_dead_letters_a_sample_is_grouped_and_said_to_be_one(
    client, store, monkeypatch
):
    monkeypatch.setattr("mulligan.server.jobs_api.BATCH_LIMIT", 1)
    await store.enqueue([new_job(f"j{n}") for n in range(6)])
    await fail(store, await claim(store, 6), "no")
    shown = await good(client.get("/api/dead"))
    assert (shown["looked_at"], shown["complete"]) == (5, False)
    assert len(shown["groups"][0]["ids"]) == 1


async def test_jobs_are_found_by_when_they_were_enqueued(client, store, clock):
    begin = clock()
    for name in ("a", "b", "c"):
        await store.enqueue([new_job(name)])
        clock.advance(10)
    asked = f"/api/jobs?created_after={begin + 10}&created_before={begin + 20}"
    assert [job["id"] for job in (await good(client.get(asked)))["jobs"]] == ["b"]
    first = await good(client.get(f"{asked}&limit=1"))
    assert [job["id"] for job in first["jobs"]] == ["b"]
    rest = await good(client.get(f"{asked}&limit=1&after={first['after']}"))
    assert (rest["jobs"], rest["after"]) == ([], None)
    await refused(client.get("/api/jobs?created_after=soon"), 422, "created_after")


async def test_an_answer_waits_until_the_job_has_ended(client, store):
    await store.enqueue([new_job("j")])
    asked = asyncio.create_task(good(client.get("/api/jobs/j?wait=30")))
    await asyncio.wait([asked], timeout=0.05)
    await store.cancel(["j"], "not needed")
    assert (await asked)["status"] == "cancelled"
    await store.enqueue([new_job("k")])
    assert (await good(client.get("/api/jobs/k?wait=0.01")))["status"] == "pending"
    await refused(client.get("/api/jobs/k?wait=61"), 422, "wait")
    await refused(client.get("/api/jobs/nobody?wait=1"), 404, "nobody")
