"""Cancel, replay, purge, pause and resume over HTTP."""

import pytest

from tests.cli.command_line import claim, fail, finish, new_job
from tests.server.conftest import good, refused


@pytest.fixture
async def dead(store):
    """Three dead letters and a job that waits."""
    await store.enqueue([new_job(name) for name in ("a", "b", "c")])
    await fail(store, await claim(store, 3), "disk full")
    await store.enqueue([new_job("d")])


async def test_jobs_are_cancelled_by_id_with_a_reason(client, store, dead):
    asked = {"ids": ["d", "a", "nowhere", "d"], "reason": "withdrawn"}
    answer = await good(client.post("/api/jobs/cancel", json=asked))
    assert answer == {
        "changed": 1,
        "refused": ["a", "nowhere"],
        "more": False,
        "reasons": {
            "a": "it is failed; only pending or processing jobs can be cancelled",
            "nowhere": "it is not stored",
        },
    }
    assert (await store.get("d")).cancel_reason == "withdrawn"


async def test_dead_letters_are_replayed_by_id(client, store, dead):
    answer = await good(client.post("/api/jobs/replay", json={"ids": ["a", "d"]}))
    assert (answer["changed"], answer["refused"]) == (1, ["d"])
    assert answer["reasons"] == {"d": "it is pending; only failed jobs can be replayed"}
    assert (await store.get("a")).status == "pending"


async def test_a_replay_says_that_another_job_has_the_unique_key(client, store):
    await store.enqueue([new_job("first", unique_key="one")])
    await fail(store, await claim(store, 1))
    await store.enqueue([new_job("second", unique_key="one")])
    answer = await good(client.post("/api/jobs/replay", json={"ids": ["first"]}))
    said = "another job has its unique key, and has not ended"
    assert (answer["changed"], answer["reasons"]) == (0, {"first": said})


async def test_a_selection_is_purged_when_it_has_the_number_expected(client, store, dead):
    wanted = {"status": "failed", "text": "disk"}
    counted = await good(client.get("/api/count", params=wanted))
    assert counted == {"count": 3, "more": False}
    asked = {"selection": wanted, "expected": counted["count"]}
    answer = await good(client.post("/api/jobs/purge", json=asked))
    assert answer == {"changed": 3, "refused": [], "more": False, "reasons": {}}
    assert await store.get("a") is None
    assert (await store.get("d")).status == "pending"


async def test_a_selection_that_has_changed_is_left_alone(client, store, dead):
    asked = {"selection": {"status": "failed"}, "expected": 2}
    await refused(client.post("/api/jobs/purge", json=asked), 409, "expected 2", "3 match now")
    assert await store.get("a") is not None


async def test_a_selection_without_an_expected_number_is_refused(client, dead):
    asked = {"selection": {"status": "failed"}}
    await refused(client.post("/api/jobs/purge", json=asked), 422, "ask GET /api/count first")


@pytest.mark.parametrize(
    ("verb", "status"), [("purge", "pending"), ("replay", "done"), ("cancel", "failed")]
)
async def test_a_selection_must_be_of_jobs_that_can_be_changed_so(client, dead, verb, status):
    asked = {"selection": {"status": status}, "expected": 1}
    await refused(client.post(f"/api/jobs/{verb}", json=asked), 422, f"status '{status}'")
    asked = {"selection": {}, "expected": 1}
    await refused(client.post(f"/api/jobs/{verb}", json=asked), 422, "needs a status")


async def test_ids_and_a_selection_exclude_each_other(client, dead):
    for asked in ({}, {"ids": ["a"], "selection": {"status": "failed"}, "expected": 3}):
        await refused(client.post("/api/jobs/purge", json=asked), 422, "not both")
    asked = {"ids": ["a"], "expected": 1}
    await refused(client.post("/api/jobs/purge", json=asked), 422, "goes with a selection")


async def test_a_large_selection_goes_in_parts(client, store, monkeypatch):
    monkeypatch.setattr("mulligan.server.change_api.COUNT_LIMIT", 4)
    await store.enqueue([new_job(f"j{n}") for n in range(6)])
    await finish(store, await claim(store, 6))
    wanted = {"status": "done"}
    assert await good(client.get("/api/count", params=wanted)) == {"count": 4, "more": True}
    asked = {"selection": wanted, "expected": 4}
    first = await good(client.post("/api/jobs/purge", json=asked))
    assert first == {"changed": 4, "refused": [], "more": True, "reasons": {}}
    assert await good(client.get("/api/count", params=wanted)) == {"count": 2, "more": False}


async def test_a_queue_is_paused_and_resumed(client, store):
    path = "/api/queues/a%2Fb"
    assert await good(client.post(f"{path}/pause")) == {"queue": "a/b", "paused": True}
    assert (await store.facts()).paused == {"a/b"}
    assert await good(client.post(f"{path}/resume")) == {"queue": "a/b", "paused": False}
    assert (await store.facts()).paused == set()


async def test_a_queue_without_a_proper_name_is_refused(client):
    await refused(client.post("/api/queues/a%0Ab/pause"), 422, "control character")
    await refused(client.post(f"/api/queues/{'x' * 129}/pause"), 422, "129 characters")
